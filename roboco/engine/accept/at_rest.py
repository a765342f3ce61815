"""at_rest: whether a task stays as it is until its user or client acts.

A task that waits continues as soon as a worker applies an item that its inbox has accepted. Until then Redis and the
workspace show the wait, so a caller that sends a message and then asks for the result would get the result before it.
"""

from collections.abc import Sequence
from typing import Final

from roboco.domain.decision.tool_answers import is_client_call, needs_resolution
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
    parse_item,
    superseded,
)
from roboco.domain.paths import item_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.ports.snapshot import Snapshot

MAX_READ_ITEMS: Final = 100
"""Items that are read to find out whether one of them ends the wait."""


def stays_at_rest(engine: Engine, summary: TaskSummary) -> bool:
    """Return True if the task is at rest, and no accepted item ends its wait.

    Cost: for a task that waits, one read of Redis, and one of the workspace for each item that is not applied yet.
    """
    if not summary.status.waiting:
        return summary.status.ended
    task = engine.tasks.task_store.load(summary.task_id, 1)
    if task is None:
        return True
    return task.position.status is summary.status and not continues(engine.workspace, summary.task_id, task)


def continues(workspace: WorkspaceRecords, task_id: str, task: Snapshot) -> bool:
    """Return True if the task waits, and an item of its inbox ends the wait.

    Cost: a read of the workspace for each item that is not applied yet, at most MAX_READ_ITEMS, in parallel. If a task
    has more, as a paused one with many messages, and those do not end its wait, it counts as one that stays as it is.
    """
    if not task.position.status.waiting:
        return False
    new = [item_id for item_id in task.item_ids if item_id not in task.state.recent_item_ids]
    found = workspace.files.get_many([item_path(task_id, item_id) for item_id in new[:MAX_READ_ITEMS]])
    items = [parse_item(data) for data in found if data is not None]
    if any(map(interrupts_work, items)):
        return True
    match task.position.status:
        case TaskStatus.USER_TURN:
            return any(isinstance(item, UserMessage) for item in items)
        case TaskStatus.PAUSED:
            return _is_resumed(task, items, len(new) <= MAX_READ_ITEMS)
        case TaskStatus.CLIENT_TOOL_TURN:
            return _is_answered(task, items)
        case _:
            return any(_decides_call(task, item) for item in items)


def _is_resumed(task: Snapshot, items: Sequence[Item], complete: bool) -> bool:
    """Return True if a worker is about to let a paused task go on: neither a pause nor a limit holds it any more.

    Messages and pauses stay in its inbox, and changes of limits while calls are open. A worker removes a resumption
    with its pauses before it records the work. `complete` says whether `items` are all that wait.
    """
    if any(isinstance(item, Resume) for item in items):
        return True
    if any(isinstance(item, LimitChange) for item in items) and not task.steps.tail[-1].calls:
        return True
    ended = superseded(items)
    pauses = [item for item in items if isinstance(item, Pause) and item.item_id not in ended]
    return complete and not is_paused(pauses, task.position.seq) and task.state.limit is None


def _is_answered(task: Snapshot, items: Sequence[Item]) -> bool:
    """Return True if each call that the task waits for has its answer among the items or in the store.

    The reason of the wait names these calls. Others were refused, and need no answer.
    """
    answered = {item.call_id for item in items if isinstance(item, ExternalToolResult)}
    answered |= {call_id for call_id, call in task.calls.items() if call.outcome is not None}
    return bool(items) and all(
        call.id in answered
        for call in task.steps.tail[-1].calls
        if is_client_call(call) and f"({call.id})" in task.position.reason
    )


def _decides_call(task: Snapshot, item: Item) -> bool:
    """Return True if the item is a decision that the wait lacks. Its reason names the calls that had none.

    An approval stays in the inbox while its call runs, and while the task waits for the resolution of its outcome.
    """
    if not isinstance(item, ApprovalDecision | UnknownResolution) or f"({item.call_id})" not in task.position.reason:
        return False
    call = task.calls.get(item.call_id)
    return needs_resolution(None if call is None else call.outcome) is isinstance(item, UnknownResolution)
