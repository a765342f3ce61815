"""sub_tasks: what a running task asks of a person or client, for itself or its open sub-tasks, at any depth."""

from collections import deque
from collections.abc import Iterator

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.approvals import approval_wait, unapproved_calls
from roboco.domain.history.part import ToolCall
from roboco.domain.ids import answer_id, approval_id, sub_task_id
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine, TaskStores
from roboco.ports.snapshot import Phase, Snapshot

SUB_TASK = "sub-task "
"""The beginning of what is asked in a sub-task."""
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


def awaited_decision(engine: Engine, task_id: str, task: Snapshot) -> str:
    """Return what a person or client decides while the task runs: on a call beside others, or in a sub-task; or "".

    Cost: that of `open_sub_tasks`, and one read of a team that this process has not read.
    """
    if asked := _asked_beside(engine, task_id, task):
        return asked
    for child, found in open_sub_tasks(engine.tasks, task_id, task):
        if found.position.status.waiting:
            return f"{SUB_TASK}{child} waits ({found.position.status}): {found.position.reason}"
        if asked := _asked_beside(engine, child, found):
            return f"{SUB_TASK}{child} waits ({TaskStatus.APPROVAL}): {asked}"
    return ""


def asks(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Return True if the task itself asks a person or client: it waits, or a call beside others needs an approval."""
    return task.position.status.waiting or bool(_asked_beside(engine, task_id, task))


def _asked_beside(engine: Engine, task_id: str, task: Snapshot) -> str:
    """Return the reason of calls that need an approval while others of the step run, or ""."""
    step = task.steps.tail[-1]
    beside = task.position.phase is Phase.TOOLS and len(step.calls) > 1
    team = engine.workspace.frozen_teams.find(task_id) if beside else None
    asked = [] if team is None else unapproved(team, task)
    return approval_wait(team, step, asked).route.reason if team is not None and asked else ""


def unapproved(team: Team, task: Snapshot) -> list[ToolCall]:
    """Return the calls of the newest step on which no decision of a person, and no expiry, has been accepted."""
    outcomes = {call_id: call.outcome for call_id, call in task.calls.items() if call.outcome is not None}
    calls = unapproved_calls(team, task.state, task.steps.tail[-1], (), outcomes)
    return [call for call in calls if approval_id(call.id) not in task.item_ids]


def task_with_call(tasks: TaskStores, task_id: str, call_id: str) -> str:
    """Return the open sub-task of the task whose newest step has this call, or the task itself if none has."""
    task = tasks.task_store.load(task_id, 1)
    if task is None or any(call.id == call_id for call in task.steps.tail[-1].calls):
        return task_id
    for child, found in open_sub_tasks(tasks, task_id, task):
        if any(call.id == call_id for call in found.steps.tail[-1].calls):
            return child
    return task_id
