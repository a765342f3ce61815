"""workers.coordinator, killing itself once."""

from tests.killing import killing
from workers import coordinator

app = killing(coordinator.app, prefork=True)
