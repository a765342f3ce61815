"""Evidence: the external inputs and tool results of a recorded history, supplied to `decide` as it requests them.

A call's result is supplied only after `decide` has requested to run the call or to wait for its answer. Outcomes that
`decide` produces itself, such as refusals, are never supplied. They are decided anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import Action, AppendStep, CallTools, Wait
from roboco.domain.decision.decide import STOPPED, decide
from roboco.domain.decision.route import Route
from roboco.domain.decision.router import Router
from roboco.domain.decision.situation import ATTEMPTS, Situation
from roboco.domain.decision.tool_calls import RESOLVED_BY
from roboco.domain.history.part import ArtifactPart, Part, ToolCall, ToolResultPart
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
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team

TAIL_LENGTH = 64
"""The number of the newest steps that `decide` sees, as a coordinator loads them."""
_STEP_FIELDS = ("item_id", "by", "agent", "interrupts", "routing")


class RecordedCall(RecordModel):
    """A recorded call and its result."""

    tool: str
    args: dict[str, Any]
    parts: tuple[Part, ...]
    """The result, and the artifacts beside it."""
    resolved: str = ""
    """The id of the inbox item with the result, or ""."""
    resolved_by: str | None = None
    """The caller that sent the item, or None."""
    approval: dict[str, Any] | None = None
    """A person's decision on the call before it ran, or None."""
    closed: bool = False
    """True if the result was no longer needed."""
    usage: dict[str, Any] = {}
    """The usage of sub-tasks."""

    @property
    def is_external(self) -> bool:
        """Return True if the result is from outside, not only the approval of the call."""
        return self.resolved != "" and (self.approval is None or self.approval.get("item_id") != self.resolved)

    @property
    def denied(self) -> bool:
        """Return True if a person denied the call."""
        return self.approval is not None and not self.approval.get("approved")

    def outcome(self, call: ToolCall) -> ToolOutcome:
        """Return the recorded result as the outcome of this call."""
        results = [part.tool_result for part in self.parts if isinstance(part, ToolResultPart)]
        artifacts = tuple(part.artifact for part in self.parts if isinstance(part, ArtifactPart))
        result = results[0].model_copy(update={"tool_call_id": call.id})
        return ToolOutcome(result=result, artifacts=artifacts).model_copy(update={"usage": self.usage})


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
    recorded = _recorded_calls(history.last, step)
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


def _sub_task_usage(step: TaskStep) -> dict[str, Any]:
    """Return the usage of the sub-tasks in a step of results: its usage without the prices of other tools."""
    usage = dict(step.metadata.get("usage") or {})
    tools = step.metadata.get("tools") or {}
    if paid := sum(one.get("cost", 0.0) for name, one in tools.items() if name != DELEGATE):
        usage["cost"] = round(usage.get("cost", 0.0) - paid, 9)
    return usage


def _recorded_calls(asked: TaskStep, step: TaskStep) -> RecordedResults:
    usage = _sub_task_usage(step)
    recorded: dict[str, RecordedCall] = {}
    for call in asked.calls:
        parts = tuple(_parts_of(step, call))
        if not parts:
            continue
        recorded[call.id] = RecordedCall(
            tool=call.tool_name,
            args=call.args,
            parts=parts,
            resolved=(step.metadata.get("resolved") or {}).get(call.id, ""),
            resolved_by=(step.metadata.get(RESOLVED_BY) or {}).get(call.id),
            approval=(step.metadata.get("approvals") or {}).get(call.id),
            usage=usage if call.tool_name == DELEGATE else {},
        )
        usage = {} if call.tool_name == DELEGATE else usage  # the step holds the sum of several sub-tasks
    return recorded


def _parts_of(step: TaskStep, call: ToolCall) -> Iterator[Part]:
    """Yield the result of the call, and the artifacts that follow it."""
    for index, part in enumerate(step.parts):
        if isinstance(part, ToolResultPart) and part.tool_result.tool_call_id == call.id:
            yield part
            yield from takewhile(lambda one: isinstance(one, ArtifactPart), step.parts[index + 1 :])


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
