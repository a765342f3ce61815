"""delegate: tool calls that submit a sub-task to another team.

    call ─► sub-task is accepted ─► ... ─► sub-task ends ─► parent's inbox ─► result of the call
            (idempotent)                                    (before the sub-task is closed)

No worker waits meanwhile. The sub-task's id derives from the call, so a repetition accepts it once. Each pass of the
sweeper over the parent repeats the submission. This changes nothing, unless the sub-task does not exist, or has ended
and its result was lost.

An agent may allow only some of its sub-tasks to run at the same time. Those are the first calls without a result. Each
result that arrives makes place for the next one; a pass that begins with the results finds it.
"""

import logging
from collections.abc import Collection, Sequence

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.budget import sub_task_limits
from roboco.domain.decision.tool_answers import cost_of_calls
from roboco.domain.decision.turn_without_model import item_of
from roboco.domain.history.lineage import Parent, parent_of
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.history.step import GUARDS, OUTPUT, TaskStep, last_answer
from roboco.domain.ids import answer_id, sub_task_id
from roboco.domain.inbox.item import Stop
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.limits import Limits, ToolLimits, UsageLimits
from roboco.domain.removal.erasure import ErasureRequest
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.usage import Usage
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.accept_task import accept_and_wake
from roboco.engine.accept.answer import external_result
from roboco.engine.accept.request_erasure import request_erasure
from roboco.engine.coordinate.close_call import close_call
from roboco.engine.engine import Engine
from roboco.engine.record.recorded_answers import recorded_answer
from roboco.engine.workspace_records import receipt_of
from roboco.errors import UsageError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.snapshot import Snapshot

_log = logging.getLogger(__name__)


def start_sub_tasks(
    engine: Engine,
    team: Team,
    task: Snapshot,
    calls: Sequence[tuple[ToolAssignment, ToolCall]],
    due: Collection[str] | None = None,
) -> None:
    """Submit the sub-tasks of these open calls, in their order, until as many run as the agent allows.

    `due` are the calls that may have been submitted without effect; None is all. Of the others, those are submitted for
    which there was no place before. Cost for them: one read of Redis for each place.
    """
    running, most = 0, _most_running(team, task)
    for assignment, call in calls:
        if running == most:
            return
        if due is None or call.id in due:
            begins = True
        else:
            child = sub_task_id(assignment.task_id, call.id)
            begins = most is not None and engine.tasks.task_store.load(child, 1) is None
        running += not begins or _start_sub_task(engine, team, task, assignment, call)


def _start_sub_task(engine: Engine, team: Team, task: Snapshot, assignment: ToolAssignment, call: ToolCall) -> bool:
    """Submit the sub-task of a delegating call. If it is refused, record that as the outcome of the call."""
    if (recorded := recorded_answer(engine.workspace, team, assignment.task_id, task, call)) is not None:
        close_call(engine, assignment, call, recorded)
        return False
    try:
        _submit_sub_task(engine, assignment.task_id, team, task, call)
    except UsageError as error:
        close_call(engine, assignment, call, failed_outcome(call.id, f"the sub-task could not be started: {error}"))
        return False
    return True


def _submit_sub_task(engine: Engine, task_id: str, team: Team, task: Snapshot, call: ToolCall) -> None:
    """Submit the sub-task of the call; if it has ended, report its result. Raise UsageError if it is refused."""
    step, name = task.steps.tail[-1], str(call.args["team"])
    child, item = sub_task_id(task_id, call.id), {"item": item_of(call)} if step.is_map else {}
    submission = parse_submission(
        {
            "task_id": child,
            "team": name,
            "prompt": call.args["prompt"],
            "context": task.steps.first.metadata.get("context", {}) | item,
            "scope": task.state.scope,
            "by": task.steps.first.metadata.get("by"),
        }
    )
    parent = Parent(task_id=task_id, call_id=call.id, at_seq=step.seq, step_id=step.step_id, child=child)
    sub_team = team.sub_team(name)
    started = engine.workspace.frozen_teams.started_at(task_id, task.state, task.steps.first) or step.created_at
    spent = (step.created_at - task.state.limits_since(started)).total_seconds()
    limits = _limits_of_sub_task(team, task, sub_team.limits, max(0.0, spent))
    accept_and_wake(engine, submission, sub_team.model_copy(update={"limits": limits}), parent)
    _erase_with_parent(engine, task_id, child)
    summary = engine.workspace.summaries.get(child)
    if summary is not None and summary.status.ended:
        _send_result(engine, parent, summary, last_answer(tuple(engine.workspace.histories.read(child))))


def _erase_with_parent(engine: Engine, task_id: str, child: str) -> None:
    """Request the erasure of the sub-task if its parent is erased: the erasure may have listed the sub-tasks before."""
    if receipt_of(engine.workspace.files, task_id) is not None:
        request = ErasureRequest(task_id=child, requested_at=engine.now(), reason=f"a part of {task_id}", stop=True)
        request_erasure(engine, request)


def _limits_of_sub_task(team: Team, task: Snapshot, limits: Limits, seconds: float) -> Limits:
    """Return the limits of a sub-task: those of its team, and a share of the rest of task, agent and `delegate`."""
    step, state = task.steps.tail[-1], task.state
    task_limits, agent = team.limits.with_overrides(state.limit_overrides), step.agent_name
    parts = sum(1 for call in step.calls if call.tool_name == DELEGATE)
    calls_usage = Usage(cost=cost_of_calls(team, state, step))
    all_used = state.usage.plus(calls_usage).model_copy(update={"seconds": seconds})
    limits = sub_task_limits(limits, task_limits, all_used, parts)
    of_agent = state.agent_usage(agent).plus(calls_usage)
    limits = sub_task_limits(limits, task_limits.agent_limits(agent), of_agent, parts)
    of_tool = UsageLimits(max_cost=task_limits.tools.get(DELEGATE, ToolLimits()).max_cost)
    return sub_task_limits(limits, of_tool, state.tool_usage(DELEGATE), parts)


def may_be_submitted(team: Team, task: Snapshot, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the open calls without those of sub-tasks that cannot exist yet.

    If an agent allows only some to run, these are the first ones. Another pass may have begun with the results of as
    many: it may be submitting the next ones.
    """
    most = _most_running(team, task)
    delegating = [call for call in calls if call.tool_name == DELEGATE]
    return [*(call for call in calls if call.tool_name != DELEGATE), *delegating[: None if most is None else 2 * most]]


def _most_running(team: Team, task: Snapshot) -> int | None:
    step = task.steps.tail[-1]
    return None if GUARDS in step.metadata or not step.calls else team.agent(step.agent_name).max_parallel


def stop_sub_task(engine: Engine, task_id: str, call: ToolCall, reason: str) -> None:
    """Stop the sub-task of the call, even if it is not submitted yet."""
    item = Stop(item_id=f"stop-{call.id}", created_at=engine.now(), reason=reason)
    accept_item(engine, sub_task_id(task_id, call.id), item, enforce_capacity=False)


def report_to_parent(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Send the result of a sub-task to its parent task. Do nothing for other tasks, or if the parent has ended."""
    parent = parent_of(task_id, task.steps.first)
    summary = None if parent is None else engine.workspace.summaries.get(task_id)
    if parent is not None and summary is not None:
        _send_result(engine, parent, summary, engine.workspace.tails.last_answer(task_id, task))


def _send_result(engine: Engine, parent: Parent, summary: TaskSummary, answer: TaskStep | None) -> None:
    """Put the result of an ended sub-task into the inbox of its parent. Drop it if the parent refuses it."""
    outcome = _sub_task_outcome(parent, summary, answer)
    stored_before = stored_item(engine.workspace, parent.task_id, answer_id(parent.call_id))
    item = stored_before or external_result(engine, parent.task_id, parent.at_seq, outcome)
    try:
        accept_item(engine, parent.task_id, item)
    except UsageError as error:
        _log.info("the result of sub-task %s is dropped: %s", summary.task_id, error)


def _sub_task_outcome(parent: Parent, summary: TaskSummary, answer: TaskStep | None) -> ToolOutcome:
    call = ToolCall(id=parent.call_id, tool_name="delegate", args={})
    took = round((summary.updated_at - summary.created_at).total_seconds() * 1000)
    if summary.status is TaskStatus.COMPLETED:
        result = {"task_id": summary.task_id, "text": "" if answer is None else answer.text}
        if answer is not None and answer.has_output:
            result["output"] = answer.metadata[OUTPUT]
        outcome = successful_outcome(call, result, took)
    else:
        outcome = failed_outcome(call.id, f"task {summary.task_id} ended as {summary.status}: {summary.reason}", took)
    return outcome.model_copy(update={"usage": _usage_of_summary(summary)})


def sub_task_usage(engine: Engine, task_id: str, call: ToolCall) -> dict[str, int | float]:
    """Return the tokens and cost that the call's sub-task has used so far; empty if there is no sub-task."""
    child = sub_task_id(task_id, call.id)
    task = engine.tasks.task_store.load(child, 1)
    if task is not None:
        state = task.state
        return {"tokens_in": state.tokens_in, "tokens_out": state.tokens_out, "cost": state.cost}
    summary = engine.workspace.summaries.get(child)
    return {} if summary is None else _usage_of_summary(summary)


def _usage_of_summary(summary: TaskSummary) -> dict[str, int | float]:
    return {"tokens_in": summary.tokens_in, "tokens_out": summary.tokens_out, "cost": summary.cost}
