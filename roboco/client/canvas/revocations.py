"""Revokes: a Celery task that was revoked while its team works stops the team.

Celery tells each worker which ids are revoked, and each remembers them. A thread of the worker's main process looks
at what is new there: all of them may send the same stop, which counts once.
"""

import logging
from collections.abc import Callable

from celery import Celery
from celery.worker import state

from roboco.adapters.celery.background import repeat_while_working
from roboco.client.canvas.team_task import team_task_id
from roboco.client.orchestrator import Orchestrator
from roboco.domain.inbox.item import Stop
from roboco.domain.paths import open_path
from roboco.engine.intake.accept import receive
from roboco.errors import RobocoError, UsageError

_log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds between two looks at what was revoked."""
LOOKS = (0, 10)
"""At which of the looks at an id its team is stopped: when it was revoked, it may have been just about to begin."""


def watch_revokes(app: Celery, orchestrator: Callable[[], Orchestrator]) -> None:
    """Stop the teams of revoked Celery tasks while a worker of the application runs in this process."""
    looks: dict[str, int] = {}
    repeat_while_working(app, "roboco-revokes", PAUSE, lambda: _look(looks, orchestrator))


def _look(looks: dict[str, int], orchestrator: Callable[[], Orchestrator]) -> None:
    revoked = {str(celery_id) for celery_id in list(state.revoked)}
    for forgotten in looks.keys() - revoked:
        del looks[forgotten]
    for celery_id in revoked:
        look = looks.get(celery_id, 0)
        try:
            if look in LOOKS:
                stop_team(orchestrator(), celery_id)
            looks[celery_id] = look + 1
        except RobocoError as error:
            _log.warning("the team of revoked Celery task %s could not be stopped yet: %s", celery_id, error)


def stop_team(orchestrator: Orchestrator, celery_id: str) -> None:
    """Stop the task that the Celery task has submitted, if it is open."""
    engine, task_id = orchestrator._engine, team_task_id(celery_id)
    if engine.files.get(open_path(task_id)) is None:
        return
    item = Stop(item_id="revoked", created_at=engine.now(), reason="revoked")
    try:
        receive(engine, task_id, item)
    except UsageError as error:
        _log.info("revoked Celery task %s: %s", celery_id, error)
