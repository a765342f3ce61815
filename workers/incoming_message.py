"""incoming_message: a Celery message from outside at a worker, and the reports of its refusal.

Operators find a refused message as a warning in the log, in a metric and, if it is worth keeping, as a dead letter.
"""

import logging
from dataclasses import dataclass
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from roboco.broker.dead_letter import dead_letter_of
from roboco.broker.display import redact_arguments, redact_error
from roboco.broker.names import CREATING_TASKS, OUTSIDE_TASKS, QUEUE_OF
from roboco.domain.dead_letter import DeadLetter
from roboco.engine.engine import Engine
from roboco.errors import Overloaded, UsageError
from roboco.ports.telemetry import REFUSED

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CeleryMessage:
    """The message of one of Roboco's own Celery tasks."""

    engine: Engine
    request: Any
    """Celery's request: the message that the worker runs."""
    time_limit_error: type[Exception] = SoftTimeLimitExceeded

    @property
    def message_id(self) -> str:
        """The id of the Celery task."""
        return str(self.request.id)

    @property
    def creates_task(self) -> bool:
        """True if the Celery task submits or forks a task."""
        return self.request.task in CREATING_TASKS

    def dead_letter(self, reason: str, attempts: int, with_body: bool = True) -> DeadLetter:
        """Return the message as a dead letter."""
        queue = QUEUE_OF[self.request.task]
        return dead_letter_of(self.request, queue, reason, attempts, self.engine.now(), with_body)

    def refuse(self, error: UsageError | Overloaded, reason: str | None) -> None:
        """Store the dead letter for this reason, if there is one; then log and count the refusal.

        The log quotes nothing of the message. If the dead letter cannot be stored, the exception is raised, and nothing
        is logged or counted here. A refused submission or fork then returns to its queue. A message whose arguments
        cannot be read (of turn, tool or list_tools, for instance) is acknowledged: its Celery task fails, and the
        message is lost.
        """
        stored = ""
        if reason is not None:
            letter = self.dead_letter(reason, 1)
            self.engine.tasks.dead_letters.add(letter)
            stored = f"; it is dead letter {letter.letter_id}"
        request = self.request
        self.engine.services.telemetry.record(REFUSED, 1, request.task)
        origin = ""
        if request.task in OUTSIDE_TASKS:
            origin = f" of {redact_arguments(dict(request.kwargs or {}), request.get('origin'))[0]}"
        _log.warning(
            "message %s (%s%s) is refused%s: %s", request.id, request.task, origin, stored, redact_error(error)
        )
