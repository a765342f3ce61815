"""The names that travel in Celery messages: three queues with their lanes, and the Celery tasks each of them carries.

Other services send by these names, so none is ever renamed.
"""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

COORDINATOR_QUEUE: Final = "roboco.coordinator"
AGENTS_QUEUE: Final = "roboco.agents"
TOOLS_QUEUE: Final = "roboco.tools"
QUEUES: Final = (COORDINATOR_QUEUE, AGENTS_QUEUE, TOOLS_QUEUE)

LANES: Final = 8
"""Each queue has so many lanes beside it for the tasks of tenants. Workers take from all of them in turn."""


def lanes(queue: str) -> tuple[str, ...]:
    """The queue and its lanes, which are queues of the broker."""
    return queue, *(f"{queue}.{number}" for number in range(LANES))


def lanes_of(queue: str, tenant: str) -> tuple[str, ...]:
    """The lanes in which the messages of a tenant's tasks may wait: two; of no tenant it is the queue itself.

    With the shorter of two, one tenant's flood delays another only where both its lanes are the same: 1 of 28.
    """
    if not tenant:
        return (queue,)
    pair = int(sha256(tenant.encode()).hexdigest(), 16) % (LANES * (LANES - 1))
    first, step = divmod(pair, LANES - 1)
    return f"{queue}.{first}", f"{queue}.{(first + step + 1) % LANES}"


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
CREATING: Final = (SUBMIT, FORK)
"""The Celery tasks that create a task. Without a `task_id`, the id of the message names it."""
ADVANCE: Final = "roboco.advance"
TURN: Final = "roboco.turn"
TOOL: Final = "roboco.tool"
LIST_TOOLS: Final = "roboco.list_tools"
NOTIFY: Final = "roboco.notify"

TEAM: Final = "roboco.team"
"""On a shop's own application: submits a task, whose result becomes its own."""
ENDED: Final = "roboco.ended"
"""On a shop's own application: goes on where such a task has ended."""

BROKER: Final = "broker"
"""What is kept for such a Celery task names the broker of its application so, without users and passwords."""

QUEUE_OF: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(OUTSIDE, COORDINATOR_QUEUE)
    | {
        ADVANCE: COORDINATOR_QUEUE,
        NOTIFY: COORDINATOR_QUEUE,
        TURN: AGENTS_QUEUE,
        TOOL: TOOLS_QUEUE,
        LIST_TOOLS: TOOLS_QUEUE,
    }
)
