"""sub_task_result: the result and the usage of a sub-task, which its parent task gets."""

import logging

from roboco.domain.history.lineage import Parent, parent_of
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.history.step import OUTPUT, TaskStep
from roboco.domain.ids import answer_id, sub_task_id
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.answer import external_result
from roboco.engine.engine import Engine
from roboco.errors import UsageError
from roboco.ports.snapshot import Snapshot

_log = logging.getLogger(__name__)


def report_to_parent(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Send the result of a sub-task to its parent task. Do nothing for other tasks, or if the parent has ended."""
    parent = parent_of(task_id, task.steps.first)
    summary = None if parent is None else engine.workspace.summaries.get(task_id)
    if parent is not None and summary is not None:
        send_result(engine, parent, summary, engine.workspace.tails.last_answer(task_id, task))


def send_result(engine: Engine, parent: Parent, summary: TaskSummary, answer: TaskStep | None) -> None:
    """Put the result of an ended sub-task into the inbox of its parent. Drop it if the parent refuses it.

    `answer` is the newest step of the sub-task with a text of an agent, or None.
    """
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
