"""The workers: the Celery applications of each pool, and what their processes do beside Celery tasks.

Installed as `roboco.workers`. Imports every other package. Read `agents.py`, then `compose_app.py` and `tasks.py`.
"""
