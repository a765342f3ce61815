"""at_rest: whether a task stays as it is until its user or client acts.

A task that waits continues as soon as a worker applies an item that its inbox has accepted. Until then Redis and the
workspace show the wait, so a caller that sends a message and then asks for the result would get the result before it.
"""

from collections.abc import Sequence

from roboco.domain.decision.tool_answers import is_client_call
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Item,
    LimitChange,
    Pause,
    Resume,
    UnknownResolution,
    UserMessage,
    interrupts_work,
    is_paused,
    superseded,
)
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import stored_item
from roboco.ports.task_store import Snapshot


def stays_at_rest(engine: Engine, summary: TaskSummary) -> bool:
    """Return True if the task is at rest, and no accepted item ends its wait.

    Cost: for a task that waits, one read of Redis, and one of the workspace for each item that is not applied yet.
    """
    if not summary.status.waiting:
        return summary.status.ended
    task = engine.task_store.load(summary.task_id, 1)
    return task is None or (task.status is summary.status and not continues(engine, summary.task_id, task))


def continues(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Return True if the task waits, and an item of its inbox ends the wait.

    Cost: a read of the workspace for each item that is not applied yet; such items are few, and are applied soon.
    """
    if not task.status.waiting:
        return False
    new = [item_id for item_id in task.item_ids if item_id not in task.state.recent_item_ids]
    items = [item for item_id in new if (item := stored_item(engine, task_id, item_id)) is not None]
    if any(map(interrupts_work, items)):
        return True
    match task.status:
        case TaskStatus.USER_TURN:
            return any(isinstance(item, UserMessage) for item in items)
        case TaskStatus.PAUSED:
            return _is_resumed(task, items)
        case TaskStatus.CLIENT_TOOL_TURN:
            return _is_answered(task, items)
        case _:
            return any(_decides_call(task, item) for item in items)


def _is_resumed(task: Snapshot, items: Sequence[Item]) -> bool:
    """Return True if a worker is about to apply one of the items to a paused task.

    Messages and pauses stay in its inbox, and changes of limits while calls are open.
    """
    if any(isinstance(item, Resume) for item in items):
        return True
    if any(isinstance(item, LimitChange) for item in items) and not task.tail[-1].calls:
        return True
    ended = superseded(items)
    pauses = [item for item in items if isinstance(item, Pause) and item.item_id not in ended]
    return bool(pauses) and not is_paused(pauses, task.seq) and task.state.limit is None


def _is_answered(task: Snapshot, items: Sequence[Item]) -> bool:
    """Return True if each call of a client tool has its answer among the items or in the store."""
    answered = {item.call_id for item in items if isinstance(item, ExternalToolResult)}
    answered |= {call_id for call_id, call in task.calls.items() if call.outcome is not None}
    return bool(items) and all(call.id in answered for call in task.tail[-1].calls if is_client_call(call))


def _decides_call(task: Snapshot, item: Item) -> bool:
    """Return True if the item is a decision that the wait lacks. Its reason names the calls that had none."""
    return isinstance(item, ApprovalDecision | UnknownResolution) and f"({item.call_id})" in task.reason
