"""roboco.workers.agents, sending every Celery message twice."""

from roboco.workers import agents
from tests.support.double_delivery import doubled

app = doubled(agents.app)
