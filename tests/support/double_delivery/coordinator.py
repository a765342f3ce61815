"""roboco.workers.coordinator, sending every Celery message twice."""

from roboco.workers import coordinator
from tests.support.double_delivery import doubled

app = doubled(coordinator.app)
