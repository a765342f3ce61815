"""What a worker's log says of a Celery task from outside that was refused or failed: not what its error quotes."""

import logging
import sys

from roboco.adapters.celery import display as shown
from roboco.adapters.celery.names import OUTSIDE

_TRACE = "celery.app.trace"


class FailureLog(logging.Filter):
    """Celery puts the error, as it would be read by its sender, into the message of a record and into its `data`.

    Of an error that is not foreseen only the kind is logged, and where it happened: a dead letter holds the rest.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass; of one about an error from outside, without anybody's words."""
        told = record.args
        if isinstance(told, dict) and told.get("name") in OUTSIDE and "exc" in told:
            frames = shown.frames_of(told.get("traceback"))
            told = told | {"exc": _said(record, str(told["exc"]), frames), "traceback": frames}
            record.args = told
            record.data = told
            record.exc_info = None
        return True


def quote_nobody() -> None:
    """Have the log of this process, and of its children, quote nothing of what came from outside."""
    logging.getLogger(_TRACE).addFilter(FailureLog())


def _said(record: logging.LogRecord, text: str, frames: str) -> str:
    kind, error = text.partition("(")[0], sys.exc_info()[1]
    if record.exc_info:
        return f"{kind}\n{frames}"
    return kind if error is None else shown.of_error(error)
