"""answer: take in what comes from outside of tool calls that no worker of ours may run, or not yet.

A call has one answer: its item is named after it, so the first one to be stored counts, whoever sends it.
"""

from typing import Any

from roboco.domain.decision.tool_answers import is_changed, is_client, needs_approval
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.ids import check_item_id, check_task_id
from roboco.domain.inbox.item import Answer, Resolution, Verdict
from roboco.domain.paths import item_path
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import WHOLE, ToolDifference
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import check_open, check_same, receive, stored
from roboco.engine.record import recover
from roboco.engine.record.tool_listings import approve_change, tool_differences
from roboco.errors import UsageError
from roboco.ports import CallContext, Snapshot

MOST = 16 * 1024 * 1024
"""The largest result of a client's call, in characters of its JSON; where the history cannot hold it, in a file."""


def answer_id(call_id: str) -> str:
    """The id of the item that answers the call."""
    return check_item_id(f"answer-{call_id}")


def verdict_id(call_id: str) -> str:
    """The id of the item that approves or denies the call."""
    return check_item_id(f"verdict-{call_id}")


def change_id(call_id: str) -> str:
    """The id of the item that approves or denies the change of the call's tool."""
    return check_item_id(f"change-{call_id}")


def answer(engine: Engine, task_id: str, outcome: Outcome) -> None:
    """Accept what came of a client's call; the same again changes nothing.

    UsageError if it has another answer already, or is no open call of a client tool.
    """
    call_id = outcome.result.tool_call_id
    item_id = answer_id(call_id)
    at_seq = _answered_at(engine, task_id, item_id)
    if at_seq is None:
        step, call = _open_call(engine, task_id, call_id)
        if not is_client(call):
            raise UsageError(
                f"call_id: call {call_id!r} is one of {call.tool_name!r}, which is no tool of the client's"
            )
        at_seq = step.seq
    kept = engine.toolbox.keep(outcome, CallContext(task_id, "", call_id, f"{task_id}/{call_id}", 1))
    item = Answer(item_id=item_id, created_at=engine.now(), call_id=call_id, at_seq=at_seq, outcome=kept)
    receive(engine, task_id, item)


def judge(engine: Engine, task_id: str, call_id: str, approved: bool, reason: str, args: dict[str, Any] | None) -> None:
    """Accept a person's word on a call that needs approval; the same again changes nothing.

    If the tool of the call has changed, the word is on the change, after which the agent may call again. UsageError if
    there is another word on it already, or if it is no open call that needs approval.
    """
    if _judge_change(engine, task_id, call_id, approved, reason, args):
        return
    item_id = verdict_id(call_id)
    at_seq = _answered_at(engine, task_id, item_id)
    if at_seq is None:
        step, call = _open_call(engine, task_id, call_id)
        if not needs_approval(engine.teams.get(task_id), call):
            raise UsageError(f"call_id: call {call_id!r} of {call.tool_name!r} needs no approval")
        at_seq = step.seq
    said = {"approved": approved, "reason": reason, "args": args}
    receive(
        engine,
        task_id,
        Verdict.model_validate(
            {"item_id": item_id, "created_at": engine.now(), "call_id": call_id, "at_seq": at_seq} | said
        ),
    )


def open_changes(engine: Engine, task_id: str) -> list[ToolDifference]:
    """Return how the tools of open calls have changed, for those changes that no person has approved or denied."""
    newest: tuple[ToolCall, ...] = ()
    for step in engine.histories.read(task_id):
        newest = step.calls
    changes = tool_differences(engine, task_id, [call.id for call in newest], WHOLE)
    return [change for change in changes if stored(engine, task_id, change_id(change.call_id)) is None]


def _judge_change(
    engine: Engine, task_id: str, call_id: str, approved: bool, reason: str, args: dict[str, Any] | None
) -> bool:
    """Accept the word on a change of the call's tool; False if the call does not wait for one."""
    task = recover.load(engine, check_task_id(task_id))
    known = None if task is None else task.calls.get(call_id)
    if task is None or known is None or not is_changed(known.outcome):
        return False
    if args is not None:
        raise UsageError(f"args: call {call_id!r} is not run, since its tool has changed: approve it without arguments")
    item = Resolution(
        item_id=change_id(call_id),
        created_at=engine.now(),
        call_id=call_id,
        at_seq=task.seq - 1,
        happened=approved,
        result=reason or None,
    )
    if approved:
        _be_first(engine, task_id, item)
        approve_change(engine, task_id, call_id)
    receive(engine, task_id, item)
    return True


def _be_first(engine: Engine, task_id: str, item: Resolution) -> None:
    """Store the item before it has any effect. UsageError if another word on the change stands already."""
    if stored(engine, task_id, item.item_id) is None:
        engine.files.create(item_path(task_id, item.item_id), item.model_dump_json().encode())
    check_same(item, stored(engine, task_id, item.item_id))


def approved(engine: Engine, team: Team, task_id: str, call: ToolCall) -> ToolCall | None:
    """The call as it may run, with the arguments that a person approved; None if nobody has approved it."""
    if not needs_approval(team, call):
        return call
    verdict = stored(engine, task_id, verdict_id(call.id))
    if not isinstance(verdict, Verdict) or not verdict.approved:
        return None
    return call if verdict.args is None else call.model_copy(update={"args": verdict.args})


def _answered_at(engine: Engine, task_id: str, item_id: str) -> int | None:
    """The position of the step whose call this item has answered before; None if there is no such item."""
    before = stored(engine, check_task_id(task_id), item_id)
    return before.at_seq if isinstance(before, Answer | Verdict) else None


def _open_call(engine: Engine, task_id: str, call_id: str) -> tuple[TaskStep, ToolCall]:
    """The open call of this id, and the step that made it; UsageError if there is none."""
    task = recover.load(engine, task_id)
    if task is not None and not _found(task, call_id) and recover.catch_up(engine, task_id, task):
        task = recover.load(engine, task_id)
    for found in _found(task, call_id) if task is not None else ():
        return found
    check_open(engine, task_id)
    told = ", ".join(call.id for call in task.tail[-1].calls) if task else ""
    raise UsageError(
        f"call_id: call {call_id[:80]!r} is no open call of task {task_id!r}: it is unknown, or has a result already; "
        f"open calls: {told or 'none'}"
    )


def _found(task: Snapshot, call_id: str) -> list[tuple[TaskStep, ToolCall]]:
    return [(task.tail[-1], call) for call in task.tail[-1].calls if call.id == call_id]
