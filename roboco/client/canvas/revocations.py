"""Revokes: if a Celery task is revoked while its team runs, the team is stopped.

Celery broadcasts revoked ids, and each worker remembers them. A thread in the main process of each worker polls them.
Several workers may send the same stop, which has its effect once.
"""

import logging
from collections.abc import Callable
from typing import Final

from celery import Celery
from celery.worker import state

from roboco.broker.background import run_periodically
from roboco.domain.ids import team_task_id
from roboco.domain.inbox.item import Stop
from roboco.domain.paths import open_marker_path
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.engine import Engine
from roboco.errors import RobocoError, UsageError

_log = logging.getLogger(__name__)

POLL_INTERVAL: Final = 1.0
"""Seconds between two polls of the revoked ids."""
STOPPING_POLLS: Final = (0, 10)
"""The polls of an id that stop its team. At the first one, the submission of the team may not have finished."""


def watch_revokes(app: Celery, engine: Callable[[], Engine]) -> None:
    """Stop the teams of revoked Celery tasks while a worker of the application runs in this process."""
    polls: dict[str, int] = {}
    run_periodically(app, "roboco-revokes", POLL_INTERVAL, lambda: _poll(polls, engine))


def _poll(polls: dict[str, int], engine: Callable[[], Engine]) -> None:
    revoked = {str(celery_id) for celery_id in list(state.revoked)}
    for forgotten in polls.keys() - revoked:
        del polls[forgotten]
    for celery_id in revoked:
        poll = polls.get(celery_id, 0)
        try:
            if poll in STOPPING_POLLS:
                stop_team(engine(), celery_id)
            polls[celery_id] = poll + 1
        except RobocoError as error:
            _log.warning("the team of revoked Celery task %s could not be stopped yet: %s", celery_id, error)


def stop_team(engine: Engine, celery_id: str) -> None:
    """Stop the task that the Celery task has submitted, if it is open."""
    task_id = team_task_id(celery_id)
    if engine.workspace.files.get(open_marker_path(task_id)) is None:
        return
    item = Stop(item_id="revoked", created_at=engine.now(), reason="revoked")
    try:
        accept_item(engine, task_id, item)
    except UsageError as error:
        _log.info("revoked Celery task %s: %s", celery_id, error)
