"""The agents pool: `celery -A roboco.workers.agents worker`. Threads, and one asyncio loop for all model streams."""

import roboco.model.openai_model  # noqa: F401  # imported now, so that no turn waits for the import
from roboco.broker.names import AGENTS_QUEUE
from roboco.settings import load_settings
from roboco.workers.compose_app import compose_worker, install_health_check

PREFETCH = 4
"""Turns that a process receives from the broker before it can start them."""

app, engine = compose_worker([AGENTS_QUEUE], "threads", load_settings().agents_concurrency, roboco_prefetch=PREFETCH)
install_health_check(app, engine.settings, "agents")
