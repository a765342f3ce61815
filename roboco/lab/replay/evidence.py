"""Evidence: what came from outside before each step of a recorded history, and the action that led to the step."""

from collections.abc import Iterator, Sequence

from roboco.domain.decision.action import ATTEMPTS, Action, AppendStep, Route, Situation, StartTurn
from roboco.domain.decision.decide import STOPPED, decide
from roboco.domain.history.part import ToolResultPart
from roboco.domain.history.state import History, state_after
from roboco.domain.history.step import FUNCTION, GUARDED, GUARDS, NEW_LIMITS, ORCHESTRATOR, REFUSED, USER, TaskStep
from roboco.domain.history.steps_on_demand import StepsOnDemand
from roboco.domain.history.task_state import TaskState
from roboco.domain.inbox.item import (
    Interrupt,
    Item,
    LimitChange,
    Stop,
    UserMessage,
    interrupts_work,
)
from roboco.domain.recorded.recorded_call import recorded_calls
from roboco.domain.recorded.recorded_results import RecordedResults
from roboco.domain.recorded.recorded_task import TAIL_LENGTH
from roboco.domain.team.team import Team

_STEP_FIELDS = ("item_id", "by", "agent", "interrupts", "routing")


def history_prefixes(steps: Sequence[TaskStep]) -> Iterator[History]:
    """Yield the history that `decide` saw before each position from 1 on, and after the last step."""
    state = TaskState()
    for end, step in enumerate(steps, 1):
        state = state_after(state, step)
        yield History(
            state, tuple(steps[max(0, end - TAIL_LENGTH) : end]), StepsOnDemand(lambda start: iter(steps[start:]), end)
        )


def recorded_action(step: TaskStep) -> Action:
    """Return the action that led to the step, from the step itself."""
    if not step.by_agent or step.is_map or not {FUNCTION, REFUSED, GUARDED}.isdisjoint(step.metadata):
        return AppendStep(step.agent_name, step.parts, step.metadata)
    routing = step.metadata.get("routing") or {}
    candidates = tuple(routing.get("candidates") or ())
    named = {name: str(routing.get(name, "")) for name in ("to", "router", "rule", "reason")}
    return StartTurn(step.agent_name, Route(**named, candidates=candidates))


def external_item(step: TaskStep) -> Item | None:
    """Return the inbox item that became this step, or None."""
    item_id, by = step.metadata.get("item_id"), step.metadata.get("by")
    if not isinstance(item_id, str):
        return None
    if step.agent_name == USER:
        return UserMessage(
            item_id=item_id,
            created_at=step.created_at,
            by=by,
            text=step.text,
            agent=step.metadata.get("agent"),
            interrupts=step.metadata.get("interrupts") is True,
            attachments={name: value for name, value in step.metadata.items() if name not in _STEP_FIELDS},
        )
    if step.is_interruption:
        return Interrupt(item_id=item_id, created_at=step.created_at, by=by)
    if step.agent_name == ORCHESTRATOR and step.error is not None and step.error.code == STOPPED:
        return Stop(item_id=item_id, created_at=step.created_at, by=by, reason=step.error.message)
    if step.agent_name == ORCHESTRATOR and isinstance(raised := step.metadata.get(NEW_LIMITS), dict):
        return LimitChange(item_id=item_id, created_at=step.created_at, by=by, limits=raised)
    return None


def give_up_reason(step: TaskStep) -> str | None:
    """Return the reason of a step that gives up further attempts, or None for any other step."""
    ended = step.agent_name == ORCHESTRATOR and step.error is not None and step.error.code == ATTEMPTS
    return step.error.message if ended and step.error is not None else None


def recorded_results(
    team: Team, history: History, step: TaskStep, after: TaskStep | None
) -> tuple[Situation, RecordedResults]:
    """Return the inputs for a step of results, and its recorded calls. `after` is the next step.

    An interruption or end in that next step is an input if it closed one of the calls, or came before a verdict.
    """
    recorded = recorded_calls(history.last, step)
    end = _interruption_in(after)
    if end.abort_reason is None:
        return Situation(), recorded
    alone = decide(team, history, end)
    results = alone.parts if isinstance(alone, AppendStep) else ()
    closed = {part.tool_result.tool_call_id: part.tool_result for part in results if isinstance(part, ToolResultPart)}
    same = {one.tool_call_id for one in step.results if closed.get(one.tool_call_id) == one}
    aborted = "aborted" in (step.metadata.get(GUARDS) or {})
    if not (aborted or any(one.tool_call_id in same and end.abort_reason in (one.error or "") for one in step.results)):
        return Situation(), recorded
    return end, {name: one.model_copy(update={"closed": name in same}) for name, one in recorded.items()}


def _interruption_in(after: TaskStep | None) -> Situation:
    if after is None:
        return Situation()
    item = external_item(after)
    return Situation(() if item is None or not interrupts_work(item) else (item,), give_up_reason=give_up_reason(after))
