"""decide_with_results: the decision of a recorded task, with the recorded results supplied as `decide` requests them.

A call's result is supplied only after `decide` has requested to run the call or to wait for its answer. Outcomes that
`decide` produces itself, such as refusals, are never supplied. They are decided anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import Action, CallTools, Route, Situation, Wait
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import Router
from roboco.domain.history.part import ToolCall, ToolOutcome, unknown_outcome
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import answer_id
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Item,
    UnknownResolution,
)
from roboco.domain.recorded.recorded_call import RecordedCall
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team

RecordedResults = Mapping[str, RecordedCall]
"""The recorded calls of a step, by their ids."""


@dataclass(frozen=True)
class ReplayedDecision:
    """The final action of `decide`."""

    action: Action
    before: tuple[Action, ...] = ()
    """The actions that `decide` requested before it."""


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
        elif one.is_external and (call.tool_name == DELEGATE or one.resolved == answer_id(call.id)):
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
