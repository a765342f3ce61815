"""workers.agents, sending every Celery message twice."""

from tests.doubled import doubled
from workers import agents

app = doubled(agents.app)
