"""The next action for the calls of a step: run them, wait for a person or client, or commit their results."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roboco.domain.builtin_tools import DELEGATE, GOAL_PREFIX
from roboco.domain.decision.action import Action, AppendStep, CallTools, Situation, Wait
from roboco.domain.decision.answer_checks import guard_verdicts, passed_answer
from roboco.domain.decision.approvals import approval_wait, unapproved_calls, waiting
from roboco.domain.decision.tool_answers import (
    approval_decisions,
    by_coordinator,
    external_results,
    is_reported,
    local_answers,
    needs_approval,
    needs_change_approval,
    needs_resolution,
    spec_of,
    waits_for_client,
)
from roboco.domain.decision.turn_without_model import recorded_answer
from roboco.domain.history.part import (
    ArtifactPart,
    Part,
    ToolCall,
    ToolOutcome,
    ToolResultPart,
    failed_outcome,
    unknown_outcome,
)
from roboco.domain.history.state import ACHIEVED_GOALS, History
from roboco.domain.history.step import (
    ANSWER,
    ANSWER_FORM,
    EXPIRED,
    FAILED_BEFORE,
    GUARDS,
    NOT_RUN,
    RESOLVED_BY,
    STATE,
    TOOL_EXECUTOR,
    TaskStep,
)
from roboco.domain.inbox.item import Pause, blocking_pause
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team


def next_for_calls(team: Team, history: History, situation: Situation) -> Action:
    """Return the next action for the calls of the last step: run them, wait for an answer, or commit the results."""
    step = history.last
    external = external_results(step, situation.inbox, situation.outcomes)
    answers = {**local_answers(team, history.state, step), **situation.outcomes}
    answers |= {call_id: one.outcome for call_id, one in external.items()}
    missing = tuple(call for call in step.calls if call.id not in answers)
    given_up: tuple[ToolCall, ...] = ()
    if situation.abort_reason is None:
        if missing:
            return _run_or_wait(team, history, situation, missing)
        if asked := [call for call in step.calls if needs_resolution(answers[call.id])]:
            return _wait_for_resolution(team, asked, answers)
    else:
        closed = {call.id: _aborted_outcome(team, step, call, situation, situation.abort_reason) for call in step.calls}
        answers = closed | answers
        given_up = tuple(call for call in missing if by_coordinator(team, call))
    outcomes = [answers[call.id] for call in step.calls]
    unpublished = tuple(
        outcome for outcome in outcomes if not is_reported(outcome.result.tool_call_id, situation.outcomes)
    )
    metadata = _results_metadata(team, history, situation, outcomes)
    if step.begins_function and (situation.abort_reason is None or not missing):
        metadata[ANSWER] = recorded_answer(team, step, outcomes[0])
    if step.is_draft and metadata[GUARDS].get("passed"):
        metadata[ANSWER] = passed_answer(step)
    approvals = (metadata.get("approvals") or {}).values()
    items = tuple({*(metadata.get("resolved") or {}).values(), *(str(one["item_id"]) for one in approvals)})
    return AppendStep(TOOL_EXECUTOR, _parts(outcomes), metadata, items, unpublished, given_up)


def _run_or_wait(team: Team, history: History, situation: Situation, missing: tuple[ToolCall, ...]) -> Action:
    step = history.last
    asked = unapproved_calls(team, history.state, step, situation.inbox, situation.outcomes)
    run = tuple(call for call in missing if call not in asked and not waits_for_client(team, call))
    if run:
        pause = blocking_pause(situation.inbox, history.state.steps)
        waits = approval_wait(team, step, asked).route.reason if asked else ""
        return CallTools(run, waits) if pause is None else paused(team, pause)
    if asked:
        return approval_wait(team, step, asked)
    return waiting(team, TaskStatus.CLIENT_TOOL_TURN, "client tools", "the client must run", missing)


def _parts(outcomes: list[ToolOutcome]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for outcome in outcomes:
        parts.append(ToolResultPart(tool_result=outcome.result))
        parts.extend(ArtifactPart(artifact=artifact) for artifact in outcome.artifacts)
    return tuple(parts)


def _results_metadata(
    team: Team, history: History, situation: Situation, outcomes: list[ToolOutcome]
) -> dict[str, Any]:
    step = history.last
    external = external_results(step, situation.inbox, situation.outcomes)
    approvals = {
        call_id: {"approved": one.approved, "reason": one.reason, "args": one.args}
        | ({} if one.expired is None else {EXPIRED: one.expired})
        | one.origin()
        for call_id, one in approval_decisions(step, situation.inbox).items()
    }
    succeeded = {outcome.result.tool_call_id for outcome in outcomes if not outcome.result.is_error}
    achieved = {
        call.tool_name.removeprefix(GOAL_PREFIX): call.id
        for call in step.calls
        if call.id in succeeded and call.tool_name.startswith(GOAL_PREFIX) and team.tool(call.tool_name) is None
    }
    resolved = {call_id: str(one["item_id"]) for call_id, one in approvals.items()}
    resolved |= {call_id: one.item_id for call_id, one in external.items()}
    denied = {call_id for call_id, one in approvals.items() if not one["approved"]}
    not_run = [outcome.result.tool_call_id for outcome in outcomes if outcome.not_run]
    prices = _prices(team, step, ({*situation.outcomes} | {*external}) - denied - {*not_run})
    aborted = {"aborted": situation.abort_reason}
    verdicts = aborted if situation.abort_reason is not None else guard_verdicts(step, outcomes)
    metadata = {
        GUARDS: verdicts if GUARDS in step.metadata else {},
        "resolved": resolved,
        ANSWER_FORM: next((one.answer_form for one in external.values() if one.answer_form), {}),
        RESOLVED_BY: {call_id: one.by for call_id, one in external.items() if one.by is not None},
        "approvals": approvals,
        NOT_RUN: not_run,
        ACHIEVED_GOALS: achieved,
        FAILED_BEFORE: {one.result.tool_call_id: list(one.failed_before) for one in outcomes if one.failed_before},
        STATE: {name: value for outcome in outcomes for name, value in outcome.state.items()},
        "usage": _usage(outcomes, prices),
        "tools": _tool_usage(step, outcomes, prices),
    }
    return {name: value for name, value in metadata.items() if value}


def _prices(team: Team, step: TaskStep, run: set[str]) -> dict[str, float]:
    specs = {call.id: spec_of(team, step, call) for call in step.calls if call.id in run}
    return {call_id: 0.0 if spec is None else spec.price for call_id, spec in specs.items()}


def _usage(outcomes: list[ToolOutcome], prices: dict[str, float]) -> dict[str, int | float]:
    """Return the usage of the calls: that of their sub-tasks, and the prices of their tools."""
    used = [outcome.usage for outcome in outcomes if outcome.usage]
    if paid := sum(prices.values()):
        used.append({"cost": paid})
    names = dict.fromkeys(name for one in used for name in one)
    return {name: round(sum(one.get(name, 0) for one in used), 9) for name in names}


def _tool_usage(step: TaskStep, outcomes: list[ToolOutcome], prices: dict[str, float]) -> dict[str, Any]:
    """Return for each tool the number of calls that were run, their seconds, cost and tokens. `prices` are by call."""
    used: dict[str, Any] = {}
    for call, outcome in zip(step.calls, outcomes, strict=True):
        if call.id in prices:
            cost = outcome.usage.get("cost", 0.0) + prices[call.id]
            one = used.setdefault(call.tool_name, {"calls": 0, "seconds": 0.0})
            one["calls"] += 1
            one["seconds"] = round(one["seconds"] + outcome.result.runtime_ms / 1000, 3)
            if cost:
                one["cost"] = round(one.get("cost", 0.0) + cost, 9)
            for name in () if call.tool_name == DELEGATE else ("tokens_in", "tokens_out"):  # sub-tasks count their own
                if count := outcome.usage.get(name):
                    one[name] = one.get(name, 0) + count
    return used


def _aborted_outcome(team: Team, step: TaskStep, call: ToolCall, situation: Situation, ended: str) -> ToolOutcome:
    """Return the outcome of a call whose result is no longer needed."""
    spec = spec_of(team, step, call)
    if needs_approval(team, call) and call.id not in approval_decisions(step, situation.inbox):
        return failed_outcome(call.id, f"not run, since it was not approved before: {ended}")
    if spec is None or spec.effect != "irreversible":
        return failed_outcome(call.id, f"not finished: {ended}")
    return unknown_outcome(call.id, f"the call was ended before its result was in ({ended})", "tell")


def _wait_for_resolution(team: Team, calls: list[ToolCall], answers: Mapping[str, ToolOutcome]) -> Wait:
    if changed := [call for call in calls if needs_change_approval(answers[call.id])]:
        reason = "the tool has changed since the task began, and a person must approve the change"
        return waiting(team, TaskStatus.APPROVAL, "changed tool", reason, changed)
    reason = "it is unknown whether this had its effect; a person must resolve it"
    return waiting(team, TaskStatus.APPROVAL, "on_unknown", reason, calls)


def paused(team: Team, pause: Pause) -> Wait:
    """Return a wait until the task is resumed."""
    return replace(waiting(team, TaskStatus.PAUSED, "paused", pause.status_reason), by=pause.by)
