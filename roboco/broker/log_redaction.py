"""log_redaction: a worker's log about messages from outside that were refused or failed, without content of users."""

import logging
import sys

from roboco.broker import display
from roboco.broker.names import OUTSIDE_TASKS

_TRACE = "celery.app.trace"


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


def redact_failures() -> None:
    """Redact the log of this process and its children: it quotes nothing of messages from outside."""
    logging.getLogger(_TRACE).addFilter(LogRedaction())


def _redacted_error(record: logging.LogRecord, text: str, frames: str) -> str:
    kind, error = text.partition("(")[0], sys.exc_info()[1]
    if record.exc_info:
        return f"{kind}\n{frames}"
    return kind if error is None else display.redact_error(error)
