"""The tools pool: `celery -A roboco.workers.tools worker`. Prefork: isolation, and time limits that end a call."""

from roboco.adapters.celery.names import TOOLS_QUEUE
from roboco.workers.compose_app import compose
from roboco.workers.pulse import run_pulse

app, engine = compose([TOOLS_QUEUE], "prefork", None, worker_max_tasks_per_child=200)
run_pulse(app, engine.settings, "tools")
