"""The coordinator pool: `celery -A roboco.workers.coordinator worker`. It also sweeps.

It rebuilds the task index, and scans for tasks whose retention has ended, too.
"""

from roboco.broker.names import COORDINATOR_QUEUE
from roboco.workers.compose_app import compose_worker, install_health_check
from roboco.workers.scans import install_scans
from roboco.workers.shop_answers import install_shop_answers
from roboco.workers.sweeper import install_sweeper

app, engine = compose_worker([COORDINATOR_QUEUE], "prefork", 4, worker_prefetch_multiplier=4)
install_sweeper(app, engine)
install_scans(app, engine)
install_shop_answers(app, engine.settings)
install_health_check(app, engine.settings, "coordinator")
