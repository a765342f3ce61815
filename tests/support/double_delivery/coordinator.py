"""roboco.workers.coordinator, sending every Celery message twice."""

from roboco.workers import coordinator
from tests.support.double_delivery import send_twice

app = send_twice(coordinator.app)
