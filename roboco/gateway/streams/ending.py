"""Ending: why a stream ends, and whether its client should ask again."""

import json
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from roboco.errors import RobocoError
from roboco.gateway.problem import Problem, problem_of

_log = logging.getLogger(__name__)

LIFETIME_DELAY: Final = 100
"""Milliseconds after which a browser resumes a stream that has reached its greatest age."""
ERROR_DELAY: Final = 5000
"""Milliseconds after which a browser resumes a stream that has failed, unless the error names a time."""


class StreamEnd(StrEnum):
    """The reason why a stream ends."""

    TASK_END = "task_end"
    """Every task of the stream has ended: nothing follows."""
    LIFETIME = "lifetime"
    """The stream has reached its greatest age (ROBOCO_GATEWAY_STREAM_SECONDS)."""
    CLOSING = "closing"
    """The gateway process is about to exit."""
    ERROR = "error"
    """A server does not answer, or the data of the task are damaged."""
    DISCONNECT = "disconnect"
    """The client has closed the connection."""


@dataclass(frozen=True)
class Ending:
    """The end of a stream."""

    reason: StreamEnd
    problem: Problem | None = None
    """The error, if it is the reason."""

    @property
    def final(self) -> bool:
        """True if nothing follows. Otherwise the client should ask again, with the id of the last frame."""
        return self.reason is StreamEnd.TASK_END

    @property
    def delay(self) -> int | None:
        """The milliseconds after which a browser should ask again, or None for those of the stream's beginning."""
        if self.reason is StreamEnd.LIFETIME:
            return LIFETIME_DELAY
        if self.problem is None:
            return None
        seconds = self.problem.headers.get("Retry-After", "")
        return max(1000 * int(seconds), 1) if seconds.isdigit() else ERROR_DELAY

    @property
    def json(self) -> str:
        """The data of the last frame."""
        data: dict[str, Any] = {"reason": self.reason, "resume": not self.final}
        if self.problem is not None:
            data |= {"code": self.problem.code, "detail": self.problem.detail, "remedy": self.problem.remedy}
        return json.dumps(data)


def failed(error: Exception) -> Ending:
    """Return the ending of a stream with this error. An error of the gateway itself is logged, and not shown."""
    match error:
        case Problem():
            return Ending(StreamEnd.ERROR, error)
        case RobocoError():
            return Ending(StreamEnd.ERROR, problem_of(error))
        case _:
            _log.error("a stream has failed", exc_info=error)
            problem = Problem(500, "internal", "the gateway has failed", "resume the stream; the operator has the log")
            return Ending(StreamEnd.ERROR, problem)
