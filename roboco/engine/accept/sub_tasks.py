"""sub_tasks: the open sub-tasks of a task, for what they ask of a person or a client at their parent."""

from collections import deque
from collections.abc import Iterator

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.ids import answer_id, sub_task_id
from roboco.engine.engine import TaskStores
from roboco.ports.task_store import Snapshot

MAX_READ = 50
"""Sub-tasks that are looked up at a time, those of sub-tasks included."""


def open_sub_tasks(tasks: TaskStores, task_id: str, task: Snapshot | None) -> Iterator[tuple[str, Snapshot]]:
    """Yield the sub-tasks of the task's open calls, and theirs, that have begun and have not ended.

    Cost: a read of Redis for each open call of `delegate`, at most MAX_READ.
    """
    left = MAX_READ
    queue = deque([] if task is None or task.position.status.ended else [(task_id, task)])
    while queue:
        parent, snapshot = queue.popleft()
        for call in snapshot.steps.tail[-1].calls:
            if call.tool_name != DELEGATE or call.id in snapshot.calls or answer_id(call.id) in snapshot.item_ids:
                continue
            if not left:
                return
            left -= 1
            child = sub_task_id(parent, call.id)
            if (found := tasks.task_store.load(child, 1)) is not None and not found.position.status.ended:
                yield child, found
                queue.append((child, found))


def task_with_call(tasks: TaskStores, task_id: str, call_id: str) -> str:
    """Return the open sub-task of the task whose newest step has this call, or the task itself if none has."""
    task = tasks.task_store.load(task_id, 1)
    if task is None or any(call.id == call_id for call in task.steps.tail[-1].calls):
        return task_id
    for child, found in open_sub_tasks(tasks, task_id, task):
        if any(call.id == call_id for call in found.steps.tail[-1].calls):
            return child
    return task_id
