"""log_redaction: a worker's log about messages from outside that were refused or failed, without content of users."""

import logging
import sys

from roboco.adapters.celery import display as shown
from roboco.adapters.celery.names import OUTSIDE

_TRACE = "celery.app.trace"


class FailureLog(logging.Filter):
    """Redacts the errors of messages from outside. Celery puts them into the message of a record and into its `data`.

    Of an unexpected error, the record keeps only the type and the stack: a dead letter holds the rest.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record if it is about a message from outside. Return True: every record passes."""
        told = record.args
        if isinstance(told, dict) and told.get("name") in OUTSIDE and "exc" in told:
            frames = shown.frames_of(told.get("traceback"))
            told = told | {"exc": _said(record, str(told["exc"]), frames), "traceback": frames}
            record.args = told
            record.data = told
            record.exc_info = None
        return True


def quote_nobody() -> None:
    """Redact the log of this process and its children: it quotes nothing of messages from outside."""
    logging.getLogger(_TRACE).addFilter(FailureLog())


def _said(record: logging.LogRecord, text: str, frames: str) -> str:
    kind, error = text.partition("(")[0], sys.exc_info()[1]
    if record.exc_info:
        return f"{kind}\n{frames}"
    return kind if error is None else shown.of_error(error)
