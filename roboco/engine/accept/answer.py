"""answer: accept external results, approvals and resolutions of tool calls.

    client tool      ─► answer             item answer-CALL
    needs approval   ─► decide_approval    item verdict-CALL, or change-CALL if the tool has changed
    outcome unknown  ─► resolve_unknown    item of the caller's id

The call may also be one of an open sub-task of the task: then the item goes to the sub-task.

A call has one answer and one approval decision: the item is named after the call, so the first stored item counts. The
same item, sent again, changes nothing. A different one raises UsageError.
"""

from dataclasses import dataclass
from typing import Any

from roboco.domain.decision.tool_answers import is_client_call, needs_approval, needs_change_approval, needs_resolution
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import answer_id, approval_id, change_id, check_task_id
from roboco.domain.inbox.item import ApprovalDecision, ExternalToolResult, UnknownResolution
from roboco.domain.paths import item_path
from roboco.domain.team.team import Team
from roboco.domain.team.tool_listing import MAX_TEXT_CHARS, ToolDifference
from roboco.engine.accept.accept_item import accept_item, check_idempotent, check_open, stored_item
from roboco.engine.accept.sub_tasks import task_with_call
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record import recover
from roboco.engine.record.recover import newest_step
from roboco.engine.record.tool_listings import approve_change, tool_differences
from roboco.errors import NotFound, StateConflict, TransientError, UsageError
from roboco.ports.snapshot import Snapshot
from roboco.ports.tools import ToolContext

MAX_EXTERNAL_RESULT_BYTES = 16 * 1024 * 1024
"""The most bytes of JSON in the result of a client tool. A file takes a result that the history cannot hold."""
MAX_SHOWN_ID_CHARS = 80
"""The most characters of a call id in an error message."""


@dataclass(frozen=True)
class CallApproval:
    """A person's approval or denial of a call."""

    approved: bool
    reason: str = ""
    args: dict[str, Any] | None = None
    """The arguments of an approved call if they differ from the requested ones, else None."""
    by: str | None = None
    """The identity of the caller."""


@dataclass(frozen=True)
class CallResolution:
    """A person's resolution of a call with an unknown outcome."""

    happened: bool
    """True if the call had its effect."""
    result: Any = None
    by: str | None = None
    """The identity of the caller."""


def answer(
    engine: Engine, task_id: str, outcome: ToolOutcome, by: str | None = None, form: dict[str, Any] | None = None
) -> None:
    """Accept the result of a client tool. A repetition changes nothing.

    Raise UsageError if the call has a different answer, or if it is not an open call of a client tool.
    """
    call_id = outcome.result.tool_call_id
    task_id, item_id = task_with_call(engine.tasks, check_task_id(task_id), call_id), answer_id(call_id)
    at_seq = _answered_seq(engine.workspace, task_id, item_id)
    if at_seq is None:
        step, call = open_call(engine, task_id, call_id)
        if not is_client_call(call):
            raise UsageError(f"call_id: {call.tool_name!r}, the tool of call {call_id!r}, is not a client tool")
        at_seq = step.seq
    accept_item(engine, task_id, external_result(engine, task_id, at_seq, outcome, by=by, answer_form=form or {}))


def external_result(
    engine: Engine, task_id: str, at_seq: int, outcome: ToolOutcome, **about: Any
) -> ExternalToolResult:
    """Return the item with the outcome of a call of the step at this position. A file takes a large result."""
    call_id = outcome.result.tool_call_id
    context = ToolContext(task_id, "", call_id, f"{task_id}/{call_id}", 1)
    facts = {"item_id": answer_id(call_id), "created_at": engine.now(), "call_id": call_id, "at_seq": at_seq}
    return ExternalToolResult(**facts, **about, outcome=engine.services.toolbox.offload_large(outcome, context))


def decide_approval(engine: Engine, task_id: str, call_id: str, approval: CallApproval) -> None:
    """Accept a person's approval or denial of a call. A repetition changes nothing.

    If the tool of the call has changed, the decision is about the change, and the agent may call the tool again. Raise
    UsageError if there is a different decision already, or if the call is not an open call that needs approval.
    """
    task_id = task_with_call(engine.tasks, check_task_id(task_id), call_id)
    if _decide_change(engine, task_id, call_id, approval):
        return
    item_id = approval_id(call_id)
    at_seq = _answered_seq(engine.workspace, task_id, item_id)
    if at_seq is None:
        step, call = open_call(engine, task_id, call_id)
        if not needs_approval(engine.workspace.frozen_teams.get(task_id), call):
            raise UsageError(f"call_id: call {call_id!r} of {call.tool_name!r} needs no approval")
        at_seq = step.seq
    about = {"item_id": item_id, "created_at": engine.now(), "call_id": call_id, "at_seq": at_seq}
    accept_item(engine, task_id, ApprovalDecision.model_validate(about | vars(approval)))


def resolve_unknown(engine: Engine, task_id: str, call_id: str, resolution: CallResolution, item_id: str) -> None:
    """Accept a person's resolution of a call with an unknown outcome. The same item again changes nothing.

    Raise UsageError if the call has no unknown outcome, and TransientError while a worker still determines the outcome.
    """
    task_id = task_with_call(engine.tasks, check_task_id(task_id), call_id)
    if (before := stored_item(engine.workspace, task_id, item_id)) is not None:
        accept_item(engine, task_id, before)  # it changes nothing if the item was applied
        return
    item = UnknownResolution(
        item_id=item_id,
        created_at=engine.now(),
        by=resolution.by,
        call_id=call_id,
        at_seq=_load_with_unknown_call(engine, task_id, call_id).position.seq - 1,
        happened=resolution.happened,
        result=resolution.result,
    )
    accept_item(engine, task_id, item)


def _load_with_unknown_call(engine: Engine, task_id: str, call_id: str) -> Snapshot:
    """Return the task in which the call waits for a resolution."""
    task = recover.load_task(engine, task_id)
    waiting = sorted(name for name, call in task.calls.items() if needs_resolution(call.outcome)) if task else []
    if task is not None and call_id not in waiting and _may_become_unknown(engine.workspace, task_id, task, call_id):
        raise TransientError(
            f"the outcome of call {call_id} of task {task_id!r} is being determined; resolve it again in a moment"
        )
    if task is None or call_id not in waiting:
        check_open(engine, task_id)
        raise _closed_call_error(
            task,
            call_id,
            f"call_id: call {call_id[:MAX_SHOWN_ID_CHARS]!r} of task {task_id!r} has no unknown outcome to resolve; "
            f"calls that have: {', '.join(waiting) or 'none'}",
        )
    if needs_change_approval(task.calls[call_id].outcome):
        raise UsageError(
            f"call_id: call {call_id!r} of task {task_id!r} was not run, since its tool has changed: approve or deny it"
        )
    return task


def _may_become_unknown(workspace: WorkspaceRecords, task_id: str, task: Snapshot, call_id: str) -> bool:
    """Return True if workers run the call and have no outcome yet. After a loss of Redis, they determine it again."""
    known = task.calls.get(call_id)
    if known is not None:
        return known.outcome is None
    run = (call for _, call in _find_calls(task, call_id) if not is_client_call(call))
    return any(approved_call(workspace, workspace.frozen_teams.get(task_id), task_id, call) for call in run)


def open_tool_changes(engine: Engine, task_id: str, newest: TaskStep | None = None) -> list[ToolDifference]:
    """Return how the tools of open calls have changed, for those changes that no person has approved or denied.

    A caller that knows the newest step passes it: then Redis is not asked.
    """
    newest = newest or newest_step(engine, task_id)
    calls = () if newest is None else newest.calls
    changes = tool_differences(engine.workspace, task_id, [call.id for call in calls], MAX_TEXT_CHARS)
    return [change for change in changes if stored_item(engine.workspace, task_id, change_id(change.call_id)) is None]


def _decide_change(engine: Engine, task_id: str, call_id: str, approval: CallApproval) -> bool:
    """Accept the decision on a change of the call's tool. Return False if the call does not wait for one."""
    task = recover.load_task(engine, check_task_id(task_id))
    known = None if task is None else task.calls.get(call_id)
    if task is None or known is None or not needs_change_approval(known.outcome):
        return False
    if approval.args is not None:
        raise UsageError(f"args: call {call_id!r} is not run, since its tool has changed: approve it without arguments")
    item = UnknownResolution(
        item_id=change_id(call_id),
        created_at=engine.now(),
        by=approval.by,
        call_id=call_id,
        at_seq=task.position.seq - 1,
        happened=approval.approved,
        result=approval.reason or None,
    )
    if approval.approved:
        _store_first(engine.workspace, task_id, item)
        approve_change(engine.workspace, task_id, call_id)
    accept_item(engine, task_id, item)
    return True


def _store_first(workspace: WorkspaceRecords, task_id: str, item: UnknownResolution) -> None:
    """Store the item before its effect. Raise UsageError if a different decision on the change is stored already."""
    if stored_item(workspace, task_id, item.item_id) is None:
        workspace.files.create(item_path(task_id, item.item_id), item.model_dump_json().encode())
    check_idempotent(item, stored_item(workspace, task_id, item.item_id))


def approved_call(workspace: WorkspaceRecords, team: Team, task_id: str, call: ToolCall) -> ToolCall | None:
    """Return the call with the arguments that a person approved, or None if no person has approved it."""
    if not needs_approval(team, call):
        return call
    approval = stored_item(workspace, task_id, approval_id(call.id))
    if not isinstance(approval, ApprovalDecision) or not approval.approved:
        return None
    return call if approval.args is None else call.model_copy(update={"args": approval.args})


def _answered_seq(workspace: WorkspaceRecords, task_id: str, item_id: str) -> int | None:
    """Return the position of the step whose call this item has answered, or None if there is no such item."""
    before = stored_item(workspace, check_task_id(task_id), item_id)
    return before.at_seq if isinstance(before, ExternalToolResult | ApprovalDecision) else None


def open_call(engine: Engine, task_id: str, call_id: str) -> tuple[TaskStep, ToolCall]:
    """Return the open call of this id, and the step that made it. Raise UsageError if there is none."""
    task = recover.load_task(engine, task_id)
    if task is not None and not _find_calls(task, call_id) and recover.catch_up(engine, task_id, task):
        task = recover.load_task(engine, task_id)
    for found in _find_calls(task, call_id) if task is not None else ():
        return found
    check_open(engine, task_id)
    open_calls = ", ".join(call.id for call in task.steps.tail[-1].calls) if task else ""
    raise _closed_call_error(
        task,
        call_id,
        f"call_id: call {call_id[:MAX_SHOWN_ID_CHARS]!r} is not an open call of task {task_id!r}: it is unknown, or "
        f"has a result already; open calls: {open_calls or 'none'}",
    )


def _closed_call_error(task: Snapshot | None, call_id: str, message: str) -> UsageError:
    """Return the error about a call that is not open: it has a result, or the newest steps do not hold it."""
    steps = () if task is None else task.steps.tail
    is_known = any(call.id == call_id for step in steps for call in step.calls)
    return StateConflict(message) if is_known else NotFound(message)


def _find_calls(task: Snapshot, call_id: str) -> list[tuple[TaskStep, ToolCall]]:
    return [(task.steps.tail[-1], call) for call in task.steps.tail[-1].calls if call.id == call_id]
