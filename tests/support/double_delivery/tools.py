"""roboco.workers.tools, sending every Celery message twice."""

from roboco.workers import tools
from tests.support.double_delivery import send_twice

app = send_twice(tools.app)
