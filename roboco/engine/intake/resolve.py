"""resolve: take in what a person says of a tool call whose outcome nobody knows."""

from typing import Any

from roboco.domain.decision.tool_answers import is_changed, waits_for_person
from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import Resolution, read_item
from roboco.domain.paths import item_path, taken_path
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import receive
from roboco.engine.record import recover
from roboco.errors import TransientError, UsageError
from roboco.ports import Snapshot


def resolve(engine: Engine, task_id: str, call_id: str, happened: bool, result: Any, item_id: str) -> None:
    """Accept the word; UsageError if no such call waits for one. The same item again changes nothing."""
    check_task_id(task_id)
    if engine.files.get(taken_path(task_id, item_id)) is not None:
        return
    if (stored := engine.files.get(item_path(task_id, item_id))) is not None:
        receive(engine, task_id, read_item(stored))
        return
    task = recover.load(engine, task_id)
    waiting = sorted(name for name, call in task.calls.items() if waits_for_person(call.outcome)) if task else []
    if task is not None and call_id not in waiting and _may_yet_wait(task, call_id):
        raise TransientError(f"call {call_id} of task {task_id!r} is being looked into; say it again in a moment")
    if task is None or call_id not in waiting:
        those = ", ".join(waiting) or "none"
        raise UsageError(f"call_id: call {call_id[:80]!r} of task {task_id!r} waits for nobody; those that do: {those}")
    if is_changed(task.calls[call_id].outcome):
        raise UsageError(
            f"call_id: call {call_id!r} of task {task_id!r} was not run, since its tool has changed: approve or deny it"
        )
    receive(
        engine,
        task_id,
        Resolution(
            item_id=item_id,
            created_at=engine.now(),
            call_id=call_id,
            at_seq=task.seq - 1,
            happened=happened,
            result=result,
        ),
    )


def _may_yet_wait(task: Snapshot, call_id: str) -> bool:
    """Whether the call is open and its outcome is not there yet: after a loss of Redis it is found out again."""
    known = task.calls.get(call_id)
    return any(call.id == call_id for call in task.tail[-1].calls) and (known is None or known.outcome is None)
