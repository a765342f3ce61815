"""redacted_request: a Celery task at a worker, as its events, its answers to `inspect` and the log show it."""

import logging
import sys
from typing import Any, Final

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # missing in the stubs
from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded
from billiard.pool import MaybeEncodingError
from celery.worker.request import Request
from celery.worker.state import revoked

from roboco.broker import display
from roboco.broker.names import OUTSIDE_TASKS, TOOL_TASK

RETURNING: Final = (TimeLimitExceeded, SoftTimeLimitExceeded, MaybeEncodingError)
"""Errors of the pool after which a message from outside returns to its queue.

MaybeEncodingError is the soft time limit too, if it is exceeded while the child process sends the result.
"""


class RedactedRequest(Request):
    """Celery's request, displayed without content of users and under its real name, whatever the sender wrote.

    A revoke of work that Roboco dispatches drops that one message. The sweeper dispatches the work again under the same
    id, which must not be dropped for hours.
    """

    def __init__(self, message: Any, **options: Any) -> None:
        headers: dict[str, Any] = message.headers | {"shadow": None}
        self._task_name: str = headers["task"]
        if self._task_name != TOOL_TASK:
            headers["timelimit"] = None  # the limits of its Celery task apply: a sender may not raise them
        if self._task_name in OUTSIDE_TASKS:
            _, arguments, _ = message.payload
            shown = display.redact_arguments(arguments, headers.get("origin"))
            headers |= dict(zip(("argsrepr", "kwargsrepr"), shown, strict=True))
        super().__init__(message, **options | {"headers": headers})
        self._error: BaseException | None = None

    def info(self, safe: bool = False) -> Any:
        """Return the answer to `inspect`, never with the arguments themselves."""
        return super().info(safe=True)

    def revoked(self) -> bool:
        """Return True if a user has revoked the message."""
        found = bool(super().revoked())
        if found and self._task_name not in OUTSIDE_TASKS:
            revoked.discard(self.id)
        return found

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Report that a Celery task failed.

        A message from outside that exceeded its time limit returns to its queue, also if its process was killed. That
        counts as an attempt, unless it was accepted before: after ROBOCO_MAX_ATTEMPTS attempts the message becomes a
        dead letter.
        """
        error: BaseException = exc_info.exception
        error = self._error = error.exc if isinstance(error, ExceptionWithTraceback) else error
        if isinstance(error, RETURNING) and self._task_name in OUTSIDE_TASKS:
            self.reject(requeue=True)
        if isinstance(error, MemoryError):
            # Of the child process. Celery would end the whole worker before it releases the message, which would then
            # end the next one.
            exc_info.exception = RuntimeError(f"MemoryError: {error}")
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002  # named by Celery
        """Send an event. Its error has no quotations, and its traceback only files and functions."""
        if "traceback" in fields:
            error = self._error
            exception = fields.get("exception") if error is None else display.redact_error(error)
            fields |= {"exception": exception, "traceback": display.redact_traceback(fields["traceback"])}
        super().send_event(type, **fields)


class LogRedaction(logging.Filter):
    """Redacts the errors of messages from outside. Celery puts them into the message of a record and into its `data`.

    Of an unexpected error, the record keeps only the type and the stack: a dead letter holds the rest.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record if it is about a message from outside. Return True: every record passes."""
        arguments = record.args
        if isinstance(arguments, dict) and arguments.get("name") in OUTSIDE_TASKS and "exc" in arguments:
            frames = display.redact_traceback(arguments.get("traceback"))
            arguments = arguments | {"exc": _redacted_error(record, str(arguments["exc"]), frames), "traceback": frames}
            record.args = arguments
            record.data = arguments
            record.exc_info = None
        return True


def _redacted_error(record: logging.LogRecord, text: str, frames: str) -> str:
    kind, error = text.partition("(")[0], sys.exc_info()[1]
    if record.exc_info:
        return f"{kind}\n{frames}"
    return kind if error is None else display.redact_error(error)
