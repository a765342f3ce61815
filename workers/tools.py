"""The tools pool: `celery -A roboco.workers.tools worker`. Prefork: isolation, and time limits that end a call."""

from roboco.adapters.celery.names import TOOLS_QUEUE
from roboco.workers.compose_app import compose, install_health_check

app, engine = compose([TOOLS_QUEUE], "prefork", None, worker_max_tasks_per_child=200)
install_health_check(app, engine.settings, "tools")
