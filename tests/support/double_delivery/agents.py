"""roboco.workers.agents, sending every Celery message twice."""

from roboco.workers import agents
from tests.support.double_delivery import send_twice

app = send_twice(agents.app)
