"""The workers: the Celery applications of each pool, and the checks and threads of their processes.

Installed as `roboco.workers`. Imports every other package. Read `agents.py`, then `compose_app.py` and `tasks.py`.
"""

from roboco.process.extras import require_extra

require_extra("workers", "a worker")  # before a module of Roboco imports one of them and fails with its name alone
