"""aborting: leave a response without the end of its body, so that its client does not take it for the whole.

uvicorn closes the connection of a response that is not complete, and logs an error, since it takes that for a mistake
of the application. Here it is none, so this process drops that one message.
"""

import logging
from contextvars import ContextVar
from typing import Final

_MISTAKE: Final = "ASGI callable returned without completing response."
_aborted: ContextVar[bool] = ContextVar("roboco_aborted", default=False)


class _AbortedResponses(logging.Filter):
    """Drops the message about a response that was aborted by `abort_quietly`."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.msg == _MISTAKE and _aborted.get())


_FILTER: Final = _AbortedResponses()


def abort_quietly() -> None:
    """Mark the response of the running task as aborted. The application returns next, without more of the body."""
    logging.getLogger("uvicorn.error").addFilter(_FILTER)  # a filter that is there already is not added again
    _aborted.set(True)
