"""task_answer: accept the answer of a shop's Celery task to a tool call.

    shop's worker ─► link: result ─► coordinator: open call? secret? ─► item answer-CALL ─► result of the call
                     link_error ──►              └─► late: refused, with an event for followers; forged: refused

The item is named after the call, so the first answer counts. The same answer again changes nothing.
"""

import hmac
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from roboco.domain.canonical_json import json_bytes, validated_json
from roboco.domain.decision.tool_answers import ended_outcome, needs_resolution
from roboco.domain.history.part import ToolCall
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome, successful_outcome
from roboco.domain.ids import answer_id, check_task_id
from roboco.domain.team.tool_spec import TaskTool
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.answer import MAX_EXTERNAL_RESULT_BYTES, external_result, open_call
from roboco.engine.coordinate.close_call import close_call
from roboco.engine.coordinate.shop_task import describe_shop_task
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.record.effects import sent_task
from roboco.errors import Forbidden, StateConflict
from roboco.ports.assignment import ToolAssignment
from roboco.ports.task_store import CallState
from roboco.ports.telemetry import TOOL_SECONDS


@dataclass(frozen=True)
class TaskAnswer:
    """The answer of a Celery task, as any sender may have written it."""

    task_id: str
    call_id: str
    secret: str
    failed: bool
    """True if it failed, or its process was lost: Celery does not say which."""
    result: Any = None


def accept_task_answer(engine: Engine, given: TaskAnswer) -> None:
    """Accept the answer. A further one to the same call changes nothing.

    Raise UsageError if no Celery task was sent for the call with this secret, or if the call has a result already.
    """
    task_id, call_id = check_task_id(given.task_id), given.call_id
    item_id, sent = answer_id(call_id), sent_task(engine.workspace, task_id, call_id)
    if sent is None or not hmac.compare_digest(sent.token.encode(), given.secret.encode()):
        raise Forbidden(f"call_id: no Celery task was sent for call {call_id!r} of task {task_id!r} with this secret")
    if (before := stored_item(engine.workspace, task_id, item_id)) is not None:
        accept_item(engine, task_id, before)
        return
    step, call = open_call(engine, task_id, call_id)
    task, tool = (
        recover.load_task(engine, task_id),
        engine.workspace.frozen_teams.get(task_id).task_tool(call.tool_name),
    )
    if task is None or tool is None:
        raise StateConflict(f"call_id: call {call_id!r} of task {task_id!r} waits for no Celery task")
    state = task.calls.get(call_id, CallState())
    if state.outcome is not None and not needs_resolution(state.outcome):
        raise StateConflict(f"call_id: call {call_id!r} has a result already; this answer of its Celery task is late")
    assignment = ToolAssignment(task_id, step.seq, task.position.epoch, call_id, state.attempt)
    outcome = _outcome(given, call, tool, describe_shop_task(assignment, call, tool))
    took = max(0.0, engine.clock.now() - sent.at)
    engine.services.telemetry.record(TOOL_SECONDS, took, call.tool_name, "error" if outcome.result.is_error else "ok")
    result = outcome.result.model_copy(update={"runtime_ms": round(took * 1000)})
    outcome = outcome.model_copy(update={"result": result})
    if needs_resolution(outcome):
        close_call(engine, assignment, call, outcome)
        return
    accept_item(engine, task_id, external_result(engine, task_id, step.seq, outcome))


def _outcome(given: TaskAnswer, call: ToolCall, tool: TaskTool, named: str) -> ToolOutcome:
    """Return the outcome that the answer reports. That of a failed irreversible Celery task is unknown."""
    if given.failed:
        why = f"{named} failed, or its process was lost: see the log of its worker"
        return ended_outcome(tool, call.id, why)
    try:
        result = validated_json(to_jsonable_python(given.result))
        size = json_bytes(result)
    except ValueError as error:
        return failed_outcome(call.id, f"{named} has ended, and its result is no JSON: {str(error)[:500]}")
    if size > MAX_EXTERNAL_RESULT_BYTES:
        limit = f"at most {MAX_EXTERNAL_RESULT_BYTES} are possible"
        return failed_outcome(call.id, f"{named} has ended, and its result has {size} bytes of JSON, {limit}")
    return successful_outcome(call, result)
