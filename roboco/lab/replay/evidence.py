"""Evidence: the external inputs and tool results of a recorded history, supplied to `decide` as it requests them.

A call's result is supplied only after `decide` has requested to run the call or to wait for its answer. Outcomes that
`decide` produces itself, such as refusals, are never supplied. They are decided anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import Action, AppendStep, CallTools, StartTurn, Wait
from roboco.domain.decision.decide import STOPPED, decide
from roboco.domain.decision.route import Route
from roboco.domain.decision.router import Router
from roboco.domain.decision.situation import ATTEMPTS, Situation
from roboco.domain.history.part import ToolCall, ToolResultPart
from roboco.domain.history.state import History, TaskState
from roboco.domain.history.step import NEW_LIMITS, ORCHESTRATOR, USER, TaskStep
from roboco.domain.history.tool_outcome import ToolOutcome, unknown_outcome
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Interrupt,
    Item,
    LimitChange,
    Stop,
    UnknownResolution,
    UserMessage,
    interrupts_work,
)
from roboco.domain.recorded.recorded_call import RecordedCall, recorded_calls
from roboco.domain.recorded.recorded_task import TAIL_LENGTH
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team

_STEP_FIELDS = ("item_id", "by", "agent", "interrupts", "routing")


RecordedResults = Mapping[str, RecordedCall]
"""The recorded calls of a step, by their ids."""


@dataclass(frozen=True)
class ReplayedDecision:
    """The final action of `decide`."""

    action: Action
    before: tuple[Action, ...] = ()
    """The actions that `decide` requested before it."""


def history_prefixes(steps: Sequence[TaskStep]) -> Iterator[History]:
    """Yield the history that `decide` saw before each position from 1 on, and after the last step."""
    state = TaskState()
    for end, step in enumerate(steps, 1):
        state = state.after(step)
        yield History(state, tuple(steps[max(0, end - TAIL_LENGTH) : end]))


def decide_with_results(
    team: Team, history: History, situation: Situation, router: Router, recorded: RecordedResults
) -> ReplayedDecision:
    """Return the action that `decide` chooses if the recorded results of its calls are supplied."""
    router = _guarded(team, router)
    if situation.abort_reason is not None:
        situation = _with_all_recorded(situation, history.last, recorded)
    before: tuple[Action, ...] = ()
    while True:
        action = decide(team, history, situation, router)
        more = _with_requested(history.last, action, situation, recorded)
        if more == situation:
            return ReplayedDecision(action, before)
        before, situation = (*before, action), more


def _guarded(team: Team, router: Router) -> Router:
    """Return a router that turns an exception of a user's router into a route to no agent, as workers do."""
    model = team.collaboration_model
    if not isinstance(model, Custom):
        return router

    def routed(team: Team, history: History) -> Route:
        try:
            return router(team, history)
        except Exception as error:  # a function of the user's may raise anything
            return Route("", model.router, "failed", f"{type(error).__name__}: {error}"[:1000])

    return routed


def recorded_action(step: TaskStep) -> Action:
    """Return the action that led to the step, from the step itself."""
    if not step.by_agent:
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

    An interruption or end in that next step is an input if it closed one of the calls.
    """
    recorded = recorded_calls(history.last, step)
    end = _interruption_in(after)
    if end.abort_reason is None:
        return Situation(), recorded
    alone = decide(team, history, end)
    results = alone.parts if isinstance(alone, AppendStep) else ()
    closed = {part.tool_result.tool_call_id: part.tool_result for part in results if isinstance(part, ToolResultPart)}
    same = {one.tool_call_id for one in step.results if closed.get(one.tool_call_id) == one}
    if not any(one.tool_call_id in same and end.abort_reason in (one.error or "") for one in step.results):
        return Situation(), recorded
    return end, {name: one.model_copy(update={"closed": name in same}) for name, one in recorded.items()}


def _interruption_in(after: TaskStep | None) -> Situation:
    if after is None:
        return Situation()
    item = external_item(after)
    return Situation(() if item is None or not interrupts_work(item) else (item,), give_up_reason=give_up_reason(after))


def _with_requested(asked: TaskStep, action: Action, situation: Situation, recorded: RecordedResults) -> Situation:
    """Return the situation with the recorded results that the action requests, or the same one if there are none."""
    if isinstance(action, Wait):
        calls = [call for call in asked.calls if call.id in action.calls]
    else:
        calls = list(action.calls) if isinstance(action, CallTools) else []
    for call in calls:
        one = recorded.get(call.id)
        if one is None or one.closed:
            continue
        if isinstance(action, Wait):
            situation = _with_item(situation, _external_word(asked, action, situation, (call, one)))
        elif one.is_external and call.tool_name == DELEGATE:
            situation = _with_item(situation, _external_result(asked, call, one))
        elif one.is_external:
            situation = _with_outcome(situation, call, unknown_outcome(call.id, "its effect is unknown", "ask"))
        elif not one.denied:
            situation = _with_outcome(situation, call, one.outcome(call))
    return situation


def _external_word(
    asked: TaskStep, wait: Wait, situation: Situation, about: tuple[ToolCall, RecordedCall]
) -> Item | None:
    """Return the inbox item about the call, if the wait is for it, or None."""
    call, one = about
    if wait.status is TaskStatus.CLIENT_TOOL_TURN:
        return _external_result(asked, call, one) if one.is_external else None
    if wait.status is not TaskStatus.APPROVAL:
        return None
    if call.id in situation.outcomes:
        return _resolution(asked, call, one) if one.is_external else None
    return _approval_decision(asked, call, one)


def _with_all_recorded(situation: Situation, asked: TaskStep, recorded: RecordedResults) -> Situation:
    """Return the situation with all results that were in when the other calls were abandoned."""
    for call in asked.calls:
        one = recorded.get(call.id)
        if one is None or one.closed:
            continue
        situation = _with_item(situation, _approval_decision(asked, call, one))
        if one.is_external:
            situation = _with_item(situation, _external_result(asked, call, one))
        elif not one.denied:
            situation = _with_outcome(situation, call, one.outcome(call))
    return situation


def _with_item(situation: Situation, item: Item | None) -> Situation:
    if item is None or any(_item_key(one) == _item_key(item) for one in situation.inbox):
        return situation
    return replace(situation, inbox=(*situation.inbox, item))


def _item_key(item: Item) -> tuple[str, str]:
    return item.kind, getattr(item, "call_id", item.item_id)


def _with_outcome(situation: Situation, call: ToolCall, outcome: ToolOutcome) -> Situation:
    if call.id in situation.outcomes:
        return situation
    return replace(situation, outcomes={**situation.outcomes, call.id: outcome})


def _external_result(asked: TaskStep, call: ToolCall, one: RecordedCall) -> ExternalToolResult:
    return ExternalToolResult(
        item_id=one.resolved,
        created_at=asked.created_at,
        by=one.resolved_by,
        call_id=call.id,
        at_seq=asked.seq,
        outcome=one.outcome(call),
    )


def _approval_decision(asked: TaskStep, call: ToolCall, one: RecordedCall) -> ApprovalDecision | None:
    if one.approval is None:
        return None
    about = {"call_id": call.id, "at_seq": asked.seq, "created_at": asked.created_at}
    return ApprovalDecision.model_validate(one.approval | about)


def _resolution(asked: TaskStep, call: ToolCall, one: RecordedCall) -> UnknownResolution:
    result = one.outcome(call).result
    return UnknownResolution(
        item_id=one.resolved,
        created_at=asked.created_at,
        by=one.resolved_by,
        call_id=call.id,
        at_seq=asked.seq,
        happened=not result.is_error,
        result=result.result,
    )
