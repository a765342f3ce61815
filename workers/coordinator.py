"""The coordinator pool: `celery -A roboco.workers.coordinator worker`. It also sweeps."""

from roboco.adapters.celery.names import COORDINATOR_QUEUE
from roboco.workers.compose_app import compose, install_health_check
from roboco.workers.sweeper import run_sweeper

app, engine = compose([COORDINATOR_QUEUE], "prefork", 4, worker_prefetch_multiplier=4)
run_sweeper(app, engine)
install_health_check(app, engine.settings, "coordinator")
