"""The tools pool: `celery -A roboco.workers.tools worker`.

Prefork: processes isolate calls, and can be killed at their time limit.
"""

from roboco.broker.names import TOOLS_QUEUE
from roboco.workers.compose_app import compose_worker, install_health_check
from roboco.workers.scans import install_index_removal

app, engine = compose_worker([TOOLS_QUEUE], "prefork", None, worker_max_tasks_per_child=200)
install_index_removal(app, engine)
install_health_check(app, engine.settings, "tools")
