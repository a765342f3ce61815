"""names: the names in Celery messages: three queues with their lanes, and the Celery tasks that each of them carries.

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
"""The number of lanes beside each queue, for the tasks of tenants. Workers consume all of them in turn."""


def lanes(queue: str) -> tuple[str, ...]:
    """Return the queue and its lanes, which are queues of the broker."""
    return queue, *(f"{queue}.{number}" for number in range(LANES))


def lanes_of(queue: str, tenant: str) -> tuple[str, ...]:
    """Return the two lanes of a tenant, or the queue itself for tasks without a tenant.

    Messages go to the shorter lane, so a tenant's flood delays another tenant only if both lanes are equal: 1 of 28.
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
"""On a shop's application: the Celery task that submits a task, and later has the result of that task."""
ENDED: Final = "roboco.ended"
"""On a shop's application: the Celery task that continues the canvas after such a task has ended."""

BROKER: Final = "broker"
"""The key of the broker's URL, without users and passwords, in the stored request of such a Celery task."""

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
