"""workers.coordinator, sending every Celery message twice."""

from tests.doubled import doubled
from workers import coordinator

app = doubled(coordinator.app)
