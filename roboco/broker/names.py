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

LANES_PER_QUEUE: Final = 8
"""The number of lanes beside each queue, for the tasks of tenants. Workers consume all of them in turn."""


def queue_lanes(queue: str) -> tuple[str, ...]:
    """Return the queue and its lanes, which are queues of the broker."""
    return queue, *(f"{queue}.{number}" for number in range(LANES_PER_QUEUE))


def tenant_lanes(queue: str, tenant: str) -> tuple[str, ...]:
    """Return the two lanes of a tenant, or the queue itself for tasks without a tenant.

    Messages go to the shorter lane, so a tenant's flood delays another tenant only if both lanes are equal: 1 of 28.
    """
    if not tenant:
        return (queue,)
    pair = int(sha256(tenant.encode()).hexdigest(), 16) % (LANES_PER_QUEUE * (LANES_PER_QUEUE - 1))
    first, step = divmod(pair, LANES_PER_QUEUE - 1)
    return f"{queue}.{first}", f"{queue}.{(first + step + 1) % LANES_PER_QUEUE}"


SUBMIT_TASK: Final = "roboco.submit"
SEND_TASK: Final = "roboco.send"
STOP_TASK: Final = "roboco.stop"
RESOLVE_TASK: Final = "roboco.resolve"
INTERRUPT_TASK: Final = "roboco.interrupt"
PAUSE_TASK: Final = "roboco.pause"
RESUME_TASK: Final = "roboco.resume"
STEP_TASK: Final = "roboco.step"
ANSWER_TASK: Final = "roboco.answer"
APPROVE_TASK: Final = "roboco.approve"
DENY_TASK: Final = "roboco.deny"
FORK_TASK: Final = "roboco.fork"
SET_LIMITS_TASK: Final = "roboco.set_limits"
RETRY_TASK: Final = "roboco.retry"
COMMAND_TASKS: Final = (
    SUBMIT_TASK,
    SEND_TASK,
    INTERRUPT_TASK,
    STOP_TASK,
    PAUSE_TASK,
    RESUME_TASK,
    STEP_TASK,
    ANSWER_TASK,
    APPROVE_TASK,
    DENY_TASK,
    RESOLVE_TASK,
    FORK_TASK,
    SET_LIMITS_TASK,
    RETRY_TASK,
)
CREATING_TASKS: Final = (SUBMIT_TASK, FORK_TASK)
"""The Celery tasks that create a task. Without a `task_id`, the id of the message names it."""
ADVANCE_TASK: Final = "roboco.advance"
TURN_TASK: Final = "roboco.turn"
TOOL_TASK: Final = "roboco.tool"
LIST_TOOLS_TASK: Final = "roboco.list_tools"
NOTIFY_TASK: Final = "roboco.notify"
TASK_ANSWER_TASK: Final = "roboco.task_answer"
"""The answer of a shop's Celery task to a tool call. The workers of the shop send it, so it is not signed."""

OUTSIDE_TASKS: Final = (*COMMAND_TASKS, TASK_ANSWER_TASK)
"""The Celery tasks that other applications send: only the broker records their messages."""

TEAM_TASK: Final = "roboco.team"
"""On a shop's application: the Celery task that submits a task, and later has the result of that task."""
ENDED_TASK: Final = "roboco.ended"
"""On a shop's application: the Celery task that continues the canvas after such a task has ended."""

BROKER_KEY: Final = "broker"
"""The key of the broker's URL, without users and passwords, in the stored request of such a Celery task."""

QUEUE_OF: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(COMMAND_TASKS, COORDINATOR_QUEUE)
    | {
        ADVANCE_TASK: COORDINATOR_QUEUE,
        NOTIFY_TASK: COORDINATOR_QUEUE,
        TASK_ANSWER_TASK: COORDINATOR_QUEUE,
        TURN_TASK: AGENTS_QUEUE,
        TOOL_TASK: TOOLS_QUEUE,
        LIST_TOOLS_TASK: TOOLS_QUEUE,
    }
)
