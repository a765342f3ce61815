"""The coordinator pool: `celery -A roboco.workers.coordinator worker`. It also sweeps."""

from roboco.adapters.celery.names import COORDINATOR_QUEUE
from roboco.workers.compose_app import compose
from roboco.workers.pulse import run_pulse
from roboco.workers.sweeper import run_sweeper

app, engine = compose([COORDINATOR_QUEUE], "prefork", 4, worker_prefetch_multiplier=4)
run_sweeper(app, engine)
run_pulse(app, engine.settings, "coordinator")
