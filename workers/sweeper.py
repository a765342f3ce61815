"""sweeper: a thread of the main process of a coordinator worker, from ready to shutdown.

Before each sweep it loads the Lua scripts that Redis and the broker do not hold, even if another worker sweeps: the
other pools have no permission to load scripts, and a restarted Redis holds none.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import Celery
from celery.signals import worker_ready

from roboco.adapters.celery.background import run_periodically
from roboco.adapters.celery.broker_scripts import BrokerScripts
from roboco.adapters.redis.client import connect_fail_fast
from roboco.adapters.redis.scripts import load_missing, script_texts
from roboco.engine.coordinator.sweep import sweep
from roboco.errors import RobocoError
from roboco.workers.process_engine import ProcessEngine

_log = logging.getLogger(__name__)


def install_sweeper(app: Celery, engine: ProcessEngine) -> None:
    """Sweep while the worker of this process runs."""
    client, interval = connect_fail_fast(engine.settings.redis_url), engine.settings.sweep_interval
    of_roboco = partial(load_missing, client, script_texts().values())
    of_kombu = BrokerScripts(app).load_missing

    def begin(**_: Any) -> None:
        _load_scripts(of_roboco, of_kombu)
        engine.telemetry.export_backlog()

    def act() -> None:
        _load_scripts(of_roboco, of_kombu)
        _log_failure("a sweep", lambda: sweep(engine(), interval))

    worker_ready.connect(begin, weak=False)
    run_periodically(app, "roboco-sweeper", interval, act)


def _load_scripts(*loads: Callable[[], int]) -> None:
    for load in loads:
        _log_failure("the loading of scripts", load)


def _log_failure(operation: str, act: Callable[[], int]) -> None:
    try:
        act()
    except RobocoError as error:
        _log.warning("%s failed and is tried again: %s", operation, error)
    except Exception:
        _log.exception("%s failed and is tried again", operation)
