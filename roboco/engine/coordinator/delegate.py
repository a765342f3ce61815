"""delegate: tool calls that submit a sub-task to another team.

    call ─► sub-task is accepted ─► ... ─► sub-task ends ─► parent's inbox ─► result of the call
            (idempotent)                                    (before the sub-task is closed)

No worker waits meanwhile. The sub-task's id derives from the call, so a repetition accepts it once. Each pass of the
sweeper over the parent repeats the submission. This changes nothing, unless the sub-task does not exist, or has ended
and its result was lost.
"""

import logging

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.budget import sub_task_limits
from roboco.domain.decision.tool_answers import cost_of_calls
from roboco.domain.history.lineage import Parent, parent_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import last_text
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.ids import answer_id, sub_task_id
from roboco.domain.inbox.item import ExternalToolResult, Stop
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.limits import Limits, ToolLimits, UsageLimits
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.usage import Usage
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import accept_item, stored_item
from roboco.engine.intake.accept_task import accept_and_wake
from roboco.errors import UsageError
from roboco.ports.task_store import Snapshot
from roboco.ports.tools import ToolContext

_log = logging.getLogger(__name__)


def start_sub_task(engine: Engine, task_id: str, team: Team, task: Snapshot, call: ToolCall) -> None:
    """Submit the sub-task of the call; if it has ended, report its result. Raise UsageError if it is refused."""
    step, name = task.tail[-1], str(call.args["team"])
    child = sub_task_id(task_id, call.id)
    submission = parse_submission(
        {
            "task_id": child,
            "team": name,
            "prompt": call.args["prompt"],
            "context": task.first.metadata.get("context", {}),
            "scope": task.state.scope,
        }
    )
    parent = Parent(task_id=task_id, call_id=call.id, at_seq=step.seq, step_id=step.step_id, child=child)
    sub_team = team.teams[name]
    spent = (step.created_at - (engine.frozen_teams.started_at(task_id, task.state) or step.created_at)).total_seconds()
    limits = _limits_of_sub_task(team, task, sub_team.limits, max(0.0, spent))
    accept_and_wake(engine, submission, sub_team.model_copy(update={"limits": limits}), parent)
    summary = engine.summaries.get(child)
    if summary is not None and summary.status.ended:
        _send_result(engine, parent, summary, _stored_last_text(engine, child))


def _limits_of_sub_task(team: Team, task: Snapshot, limits: Limits, seconds: float) -> Limits:
    """Return the limits of a sub-task: those of its team, and a share of the rest of task, agent and `delegate`."""
    step, state = task.tail[-1], task.state
    task_limits, parts = (
        team.limits.with_overrides(state.limit_overrides),
        sum(1 for call in step.calls if call.tool_name == DELEGATE),
    )
    calls_usage = Usage(cost=cost_of_calls(team, state, step))
    all_used = state.usage.plus(calls_usage).model_copy(update={"seconds": seconds})
    limits = sub_task_limits(limits, task_limits, all_used, parts)
    limits = sub_task_limits(
        limits, task_limits.agent_limits(step.agent_name), state.agent_usage(step.agent_name).plus(calls_usage), parts
    )
    of_tool = UsageLimits(max_cost=task_limits.tools.get(DELEGATE, ToolLimits()).max_cost)
    return sub_task_limits(limits, of_tool, state.tool_usage(DELEGATE), parts)


def report_to_parent(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Send the result of a sub-task to its parent task. Do nothing for other tasks, or if the parent has ended."""
    parent = parent_of(task_id, task.first)
    summary = None if parent is None else engine.summaries.get(task_id)
    if parent is not None and summary is not None:
        _send_result(engine, parent, summary, last_text(task.tail))


def stop_sub_task(engine: Engine, task_id: str, call: ToolCall, reason: str) -> None:
    """Stop the sub-task of the call, even if it is not submitted yet."""
    item = Stop(item_id=f"stop-{call.id}", created_at=engine.now(), reason=reason)
    accept_item(engine, sub_task_id(task_id, call.id), item, enforce_capacity=False)


def sub_task_usage(engine: Engine, task_id: str, call: ToolCall) -> dict[str, int | float]:
    """Return the tokens and cost that the call's sub-task has used so far; empty if there is no sub-task."""
    child = sub_task_id(task_id, call.id)
    task = engine.task_store.load(child, 1)
    if task is not None:
        state = task.state
        return {"tokens_in": state.tokens_in, "tokens_out": state.tokens_out, "cost": state.cost}
    summary = engine.summaries.get(child)
    return {} if summary is None else _usage_of_summary(summary)


def _usage_of_summary(summary: TaskSummary) -> dict[str, int | float]:
    return {"tokens_in": summary.tokens_in, "tokens_out": summary.tokens_out, "cost": summary.cost}


def _send_result(engine: Engine, parent: Parent, summary: TaskSummary, text: str) -> None:
    outcome = _sub_task_outcome(parent, summary, text)
    context = ToolContext(parent.task_id, "", parent.call_id, parent.call_id, 1)
    stored_before = stored_item(engine, parent.task_id, answer_id(parent.call_id))
    answer = stored_before or ExternalToolResult(
        item_id=answer_id(parent.call_id),
        created_at=engine.now(),
        call_id=parent.call_id,
        at_seq=parent.at_seq,
        outcome=engine.toolbox.offload_large(outcome, context),
    )
    try:
        accept_item(engine, parent.task_id, answer)
    except UsageError as error:
        _log.info("the result of sub-task %s is dropped: %s", summary.task_id, error)


def _sub_task_outcome(parent: Parent, summary: TaskSummary, text: str) -> ToolOutcome:
    call = ToolCall(id=parent.call_id, tool_name="delegate", args={})
    took = round((summary.updated_at - summary.created_at).total_seconds() * 1000)
    if summary.status is TaskStatus.COMPLETED:
        outcome = successful_outcome(call, {"task_id": summary.task_id, "text": text}, took)
    else:
        outcome = failed_outcome(call.id, f"task {summary.task_id} ended as {summary.status}: {summary.reason}", took)
    return outcome.model_copy(update={"usage": _usage_of_summary(summary)})


def _stored_last_text(engine: Engine, task_id: str) -> str:
    return last_text(tuple(engine.histories.read(task_id)))
