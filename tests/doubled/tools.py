"""roboco.workers.tools, sending every Celery message twice."""

from roboco.workers import tools
from tests.doubled import doubled

app = doubled(tools.app)
