"""The names that travel in Celery messages: three queues, and the Celery tasks each of them carries.

Other services send by these names, so none is ever renamed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

COORDINATOR_QUEUE: Final = "roboco.coordinator"
AGENTS_QUEUE: Final = "roboco.agents"
TOOLS_QUEUE: Final = "roboco.tools"
QUEUES: Final = (COORDINATOR_QUEUE, AGENTS_QUEUE, TOOLS_QUEUE)

SUBMIT: Final = "roboco.submit"
SEND: Final = "roboco.send"
STOP: Final = "roboco.stop"
RESOLVE: Final = "roboco.resolve"
INTERRUPT: Final = "roboco.interrupt"
PAUSE: Final = "roboco.pause"
RESUME: Final = "roboco.resume"
STEP: Final = "roboco.step"
ANSWER: Final = "roboco.answer"
APPROVE: Final = "roboco.approve"
DENY: Final = "roboco.deny"
FORK: Final = "roboco.fork"
RAISE_LIMITS: Final = "roboco.raise_limits"
OUTSIDE: Final = (
    SUBMIT,
    SEND,
    INTERRUPT,
    STOP,
    PAUSE,
    RESUME,
    STEP,
    ANSWER,
    APPROVE,
    DENY,
    RESOLVE,
    FORK,
    RAISE_LIMITS,
)
ADVANCE: Final = "roboco.advance"
TURN: Final = "roboco.turn"
TOOL: Final = "roboco.tool"

QUEUE_OF: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(OUTSIDE, COORDINATOR_QUEUE)
    | {
        ADVANCE: COORDINATOR_QUEUE,
        TURN: AGENTS_QUEUE,
        TOOL: TOOLS_QUEUE,
    }
)
