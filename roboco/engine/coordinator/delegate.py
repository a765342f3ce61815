"""delegate: tool calls that submit a sub-task to another team.

    call ─► sub-task is accepted ─► ... ─► sub-task ends ─► parent's inbox ─► result of the call
            (idempotent)                                    (before the sub-task is closed)

No worker waits meanwhile. The sub-task's id derives from the call, so a repetition accepts it once. Each pass of the
sweeper over the parent repeats the submission. This changes nothing, unless the sub-task does not exist, or has ended
and its result was lost.
"""

import logging

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.budget import share
from roboco.domain.decision.tool_answers import cost_of_calls
from roboco.domain.history.lineage import Parent, parent_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import last_said
from roboco.domain.history.tool_outcome import Outcome, failure, success
from roboco.domain.ids import sub_task_id
from roboco.domain.inbox.item import Answer, Stop
from roboco.domain.inbox.submission import read_submission
from roboco.domain.limits import Limits, Spending, ToolSpending
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.usage import Spent
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import receive, stored
from roboco.engine.intake.accept_task import accept_and_wake
from roboco.engine.intake.answer import answer_id
from roboco.engine.record.summaries import stored_summary
from roboco.errors import UsageError
from roboco.ports import CallContext, Snapshot

_log = logging.getLogger(__name__)


def begin(engine: Engine, task_id: str, team: Team, task: Snapshot, call: ToolCall) -> None:
    """Submit the sub-task of the call; if it has ended, report its result. Raise UsageError if it is refused."""
    step, name = task.tail[-1], str(call.args["team"])
    child = sub_task_id(task_id, call.id)
    submission = read_submission(
        {
            "task_id": child,
            "team": name,
            "prompt": call.args["prompt"],
            "context": task.first.metadata.get("context", {}),
            "scope": task.state.scope,
        }
    )
    parent = Parent(task_id=task_id, call_id=call.id, at_seq=step.seq, step_id=step.step_id, child=child)
    given = team.teams[name]
    spent = (step.created_at - (engine.teams.began(task_id, task.state) or step.created_at)).total_seconds()
    limits = _limits(team, task, given.limits, max(0.0, spent))
    accept_and_wake(engine, submission, given.model_copy(update={"limits": limits}), parent)
    summary = stored_summary(engine, child)
    if summary is not None and summary.status.ended:
        _report(engine, parent, summary, _said(engine, child))


def _limits(team: Team, task: Snapshot, limits: Limits, seconds: float) -> Limits:
    """Return the limits of a sub-task: those of its team, and a share of the rest of task, agent and `delegate`."""
    step, state = task.tail[-1], task.state
    own, parts = team.limits.raised(state.raised), sum(1 for call in step.calls if call.tool_name == DELEGATE)
    beside = Spent(cost=cost_of_calls(team, state, step))
    all_used = state.spent.plus(beside).model_copy(update={"seconds": seconds})
    limits = share(limits, own, all_used, parts)
    limits = share(limits, own.of_agent(step.agent_name), state.of_agent(step.agent_name).plus(beside), parts)
    of_tool = Spending(max_cost=own.tools.get(DELEGATE, ToolSpending()).max_cost)
    return share(limits, of_tool, state.of_tool(DELEGATE), parts)


def report(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Send the result of a sub-task to its parent task. Do nothing for other tasks, or if the parent has ended."""
    parent = parent_of(task_id, task.first)
    summary = None if parent is None else stored_summary(engine, task_id)
    if parent is not None and summary is not None:
        _report(engine, parent, summary, last_said(task.tail))


def stop(engine: Engine, task_id: str, call: ToolCall, reason: str) -> None:
    """Stop the sub-task of the call, even if it is not submitted yet."""
    item = Stop(item_id=f"stop-{call.id}", created_at=engine.now(), reason=reason)
    receive(engine, sub_task_id(task_id, call.id), item, limited=False)


def used_so_far(engine: Engine, task_id: str, call: ToolCall) -> dict[str, int | float]:
    """Return the tokens and cost that the call's sub-task has used so far; empty if there is no sub-task."""
    child = sub_task_id(task_id, call.id)
    task = engine.board.load(child, 1)
    if task is not None:
        state = task.state
        return {"tokens_in": state.tokens_in, "tokens_out": state.tokens_out, "cost": state.cost}
    summary = stored_summary(engine, child)
    return {} if summary is None else _usage_of(summary)


def _usage_of(summary: TaskSummary) -> dict[str, int | float]:
    return {"tokens_in": summary.tokens_in, "tokens_out": summary.tokens_out, "cost": summary.cost}


def _report(engine: Engine, parent: Parent, summary: TaskSummary, text: str) -> None:
    outcome = _outcome(parent, summary, text)
    context = CallContext(parent.task_id, "", parent.call_id, parent.call_id, 1)
    before = stored(engine, parent.task_id, answer_id(parent.call_id))
    answer = before or Answer(
        item_id=answer_id(parent.call_id),
        created_at=engine.now(),
        call_id=parent.call_id,
        at_seq=parent.at_seq,
        outcome=engine.toolbox.keep(outcome, context),
    )
    try:
        receive(engine, parent.task_id, answer)
    except UsageError as error:
        _log.info("the result of sub-task %s is dropped: %s", summary.task_id, error)


def _outcome(parent: Parent, summary: TaskSummary, text: str) -> Outcome:
    call = ToolCall(id=parent.call_id, tool_name="delegate", args={})
    took = round((summary.updated_at - summary.created_at).total_seconds() * 1000)
    if summary.status is TaskStatus.COMPLETED:
        outcome = success(call, {"task_id": summary.task_id, "text": text}, took)
    else:
        outcome = failure(call.id, f"task {summary.task_id} ended as {summary.status}: {summary.reason}", took)
    return outcome.model_copy(update={"usage": _usage_of(summary)})


def _said(engine: Engine, task_id: str) -> str:
    return last_said(tuple(engine.histories.read(task_id)))
