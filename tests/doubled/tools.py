"""workers.tools, sending every Celery message twice."""

from tests.doubled import doubled
from workers import tools

app = doubled(tools.app)
