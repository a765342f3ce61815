"""The tools pool with a process for each call of a step: `celery -A tests.bench.processes.wide.tools worker`."""

from roboco.broker.names import TOOLS_QUEUE
from roboco.workers.compose_app import compose_worker

PROCESSES = 20

app, engine = compose_worker([TOOLS_QUEUE], "prefork", PROCESSES, worker_max_tasks_per_child=200)
