"""roboco.workers.coordinator, sending every Celery message twice."""

from roboco.workers import coordinator
from tests.doubled import doubled

app = doubled(coordinator.app)
