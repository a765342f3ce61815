"""The coordinator pool: `celery -A roboco.workers.coordinator worker`. It also sweeps.

It rebuilds the task index, and scans for tasks whose retention has ended, too.
"""

from roboco.broker.names import COORDINATOR_QUEUE
from roboco.workers.compose_app import compose_worker, install_health_check
from roboco.workers.index_rebuilder import install_index_rebuilder
from roboco.workers.retention import install_retention
from roboco.workers.shop_answers import install_shop_answers
from roboco.workers.sweeper import install_sweeper

app, engine = compose_worker([COORDINATOR_QUEUE], "prefork", 4, worker_prefetch_multiplier=4)
install_sweeper(app, engine)
install_index_rebuilder(app, engine)
install_retention(app, engine)
install_shop_answers(app, engine.settings)
install_health_check(app, engine.settings, "coordinator")
