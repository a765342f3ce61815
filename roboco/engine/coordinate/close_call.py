"""close_call: record the outcome of a call in place of its worker, and build the event of an outcome."""

from roboco.domain.decision.tool_answers import needs_resolution
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.stream.event import AnyEvent, ToolReturned, ToolUnknown
from roboco.engine.engine import Engine
from roboco.ports.assignment import ToolAssignment


def close_call(engine: Engine, assignment: ToolAssignment, call: ToolCall, outcome: ToolOutcome) -> None:
    """Record the outcome of a call whose worker cannot do so: its time is up, or it was lost too often."""
    if (
        engine.tasks.leases.record_outcome(assignment, None, outcome, result_event(engine, assignment, call, outcome))
        is not None
    ):
        engine.services.dispatcher.advance(assignment.task_id)


def result_event(engine: Engine, assignment: ToolAssignment, call: ToolCall, outcome: ToolOutcome) -> AnyEvent:
    """Return the event for followers: the result, or that a person has to resolve an unknown outcome."""
    task_id, now, name = assignment.task_id, engine.now(), call.tool_name
    if not needs_resolution(outcome):
        return ToolReturned(task_id=task_id, timestamp=now, tool_name=name, tool_result=outcome.result)
    reason = outcome.result.error or ""
    return ToolUnknown(task_id=task_id, timestamp=now, tool_name=name, tool_call_id=call.id, reason=reason)
