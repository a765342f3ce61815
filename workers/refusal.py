"""refusal: what operators find of a message that a worker refuses: a warning, a metric and a dead letter."""

import logging
from typing import Any

from roboco.adapters.celery import letters
from roboco.adapters.celery.display import of_error, of_outside
from roboco.adapters.celery.names import OUTSIDE, QUEUE_OF
from roboco.domain.dead_letter import DeadLetter
from roboco.engine.engine import Engine
from roboco.errors import Overloaded, UsageError
from roboco.ports.telemetry import REFUSED

_log = logging.getLogger(__name__)


def letter_of(engine: Engine, request: Any, reason: str, attempts: int) -> DeadLetter:
    """Return the dead letter of a message of one of Roboco's own Celery tasks."""
    return letters.letter_of(request, QUEUE_OF[request.task], reason, attempts, engine.now())


def refuse(engine: Engine, request: Any, error: UsageError | Overloaded, reason: str | None) -> None:
    """Store the dead letter for this reason, if there is one; then log and count the refusal.

    The log quotes nothing of the message. If the dead letter cannot be stored, the exception passes on, and nothing is
    logged or counted here. A refused submission or fork then returns to its queue. A message whose arguments cannot be
    read (of turn, tool or list_tools, for instance) is acknowledged: its Celery task fails, and the message is lost.
    """
    kept = ""
    if reason is not None:
        letter = letter_of(engine, request, reason, 1)
        engine.dead.add(letter)
        kept = f"; it is dead letter {letter.letter_id}"
    engine.telemetry.note(REFUSED, 1, request.task)
    of = ""
    if request.task in OUTSIDE:
        of = f" of {of_outside(dict(request.kwargs or {}), request.get('origin'))[0]}"
    _log.warning("message %s (%s%s) is refused%s: %s", request.id, request.task, of, kept, of_error(error))
