"""One process for everything, for a laptop: `celery -A roboco.workers.app worker`.

Prefork, because only a killed process ends a tool at its time limit; so each child runs one turn at a time.
"""

from roboco.broker.names import QUEUES
from roboco.workers.compose_app import compose_worker, install_health_check
from roboco.workers.scans import install_scans
from roboco.workers.shop_answers import install_shop_answers
from roboco.workers.sweeper import install_sweeper

app, engine = compose_worker(QUEUES, "prefork", 8)
install_sweeper(app, engine)
install_scans(app, engine)
install_shop_answers(app, engine.settings)
install_health_check(app, engine.settings, "app")
