"""The registration of a worker: at its start and every few seconds, in a thread of its main process."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from celery import Celery
from celery.signals import worker_init

from roboco.adapters.celery.while_working import repeat_while_working
from roboco.client.wiring import workspace_address
from roboco.engine.registration import register, workspace_name
from roboco.errors import RobocoError, TransientError
from roboco.ports import WorkspaceName
from roboco.workers.process import ProcessEngine

_log = logging.getLogger(__name__)

EVERY = 3.0
"""Seconds between two registrations of a worker."""


def keep_registered(app: Celery, engine: ProcessEngine, queues: Sequence[str]) -> None:
    """Register the workers of this application in the pools of these queues.

    A worker whose workspace is not the coordinators' ends at its start. If Redis or the store does not answer then, the
    worker starts. A difference that shows later is logged, since it may be Redis that has lost something.
    """
    pools = tuple(queue.rpartition(".")[2] for queue in queues)

    @cache
    def own() -> WorkspaceName:
        return workspace_name(engine(), workspace_address(engine.settings))

    def begin(**_: Any) -> None:
        try:
            register(engine(), pools, engine.settings.tools, own())
        except TransientError as error:
            _log.warning("this worker is not registered yet: %s", error)
        except RobocoError as error:
            raise SystemExit(f"this worker ends: {error}") from error

    def again() -> None:
        try:
            register(engine(), pools, engine.settings.tools, own())
        except TransientError as error:
            _log.info("this worker is not registered now: %s", error)
        except Exception as error:  # the thread has to live
            _log.error("this worker is not registered: %s", error)

    worker_init.connect(begin, weak=False)
    repeat_while_working(app, "roboco-registration", EVERY, again)
