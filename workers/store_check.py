"""store_check: a worker does not run on an S3 store that ignores conditional writes.

On such a store one writer could replace an object that another one has created. Each worker checks its store at its
start, in its main process. A folder needs no check: the operating system honours conditions. A client needs none:
without a worker no step is made, and no worker starts on such a store.
"""

import logging
from typing import Any, Final

from celery import Celery
from celery.worker import state

from roboco.broker.background import run_periodically
from roboco.errors import RobocoError
from roboco.settings import Settings
from roboco.workspace.conditions import REMEDY, conditional_write_flaw
from roboco.workspace.s3 import S3Objects, open_objects

_STORE_TIMEOUT: Final = 5.0
"""The most seconds for one answer: a worker starts although its store does not answer."""
_RECHECK_INTERVAL: Final = 2.0
"""Seconds until a store that did not answer is checked again."""
_EXIT_FAILURE: Final = 1

_log = logging.getLogger(__name__)


def check_store(app: Celery, settings: Settings, **_: Any) -> None:
    """Exit before the worker takes work if its store ignores conditional writes.

    If the store does not answer, the worker starts, and the check is repeated until the store answers.
    """
    wait = min(_STORE_TIMEOUT, settings.s3_timeout)
    objects = open_objects(settings.workspace, settings.s3_endpoint_url, wait, attempts=1)
    if objects is None:
        return
    try:
        problem = conditional_write_flaw(objects)
    except RobocoError as error:
        _log.warning("the S3 store is not checked yet, and is checked again every %g s: %s", _RECHECK_INTERVAL, error)
        run_periodically(app, "roboco-store-check", _RECHECK_INTERVAL, lambda: _recheck(settings, objects))
    else:
        if problem:
            raise SystemExit(_exit_reason(settings, problem))


def _recheck(settings: Settings, objects: S3Objects) -> bool:
    """Check the store; return False once it has answered."""
    try:
        problem = conditional_write_flaw(objects)
    except RobocoError as error:
        _log.debug("the S3 store is still not checked: %s", error)
        return True
    if problem:
        _log.critical("%s", _exit_reason(settings, problem))
        vars(state)["should_stop"] = _EXIT_FAILURE  # the main loop ends the worker with this exit code
    else:
        _log.info("the S3 store honours conditional writes")
    return False


def _exit_reason(settings: Settings, problem: str) -> str:
    return f"this worker ends: the S3 store of ROBOCO_WORKSPACE={settings.workspace!r} {problem}; {REMEDY}"
