"""roboco.workers.tools, sending every Celery message twice."""

from roboco.workers import tools
from tests.support.double_delivery import doubled

app = doubled(tools.app)
