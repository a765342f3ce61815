"""roboco.workers.agents, sending every Celery message twice."""

from roboco.workers import agents
from tests.doubled import doubled

app = doubled(agents.app)
