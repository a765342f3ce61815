"""Answers to tool calls that no tool worker gives: hand-offs, refusals, and a person's word on an unknown outcome."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roboco.domain.builtin import BUILTIN, HANDOFF
from roboco.domain.inbox import Item, Resolution
from roboco.domain.outcome import Outcome, failure, success, without_effect
from roboco.domain.part import ToolCall
from roboco.domain.step import TaskStep
from roboco.domain.team import Team


@dataclass(frozen=True)
class Resolved:
    """What a person says that a call came to, in the item of this id."""

    item_id: str
    outcome: Outcome


def waits_for_person(outcome: Outcome | None) -> bool:
    """Whether a person has to say what the call came to."""
    return outcome is not None and outcome.unknown == "ask"


def is_told(call_id: str, outcomes: Mapping[str, Outcome]) -> bool:
    """Whether a tool worker has told the call's result; what waits for a person is no result yet."""
    return call_id in outcomes and not waits_for_person(outcomes[call_id])


def resolutions(step: TaskStep, inbox: Iterable[Item], outcomes: Mapping[str, Outcome]) -> dict[str, Resolved]:
    """What persons say of the calls of a step that wait for it; of several words on a call the first one counts."""
    calls = {call.id: call for call in step.calls if waits_for_person(outcomes.get(call.id))}
    resolved: dict[str, Resolved] = {}
    for item in inbox:
        if isinstance(item, Resolution) and item.call_id in calls:
            resolved.setdefault(item.call_id, Resolved(item.item_id, _outcome(calls[item.call_id], item)))
    return resolved


def _outcome(call: ToolCall, item: Resolution) -> Outcome:
    if not item.happened:
        return without_effect(call.id)
    return success(call, "the call had its effect" if item.result is None else item.result)


def answered_here(team: Team, step: TaskStep) -> dict[str, Outcome]:
    """The calls of a step that no tool worker runs, with their answers: hand-offs and refusals."""
    agent = team.agent(step.agent_name)
    invalid = step.metadata.get("invalid_calls") or {}
    answers: dict[str, Outcome] = {}
    handed_off = False
    for call in step.calls:
        if call.id in invalid:
            answers[call.id] = failure(call.id, f"{invalid[call.id]}; call {call.tool_name!r} again")
        elif call.tool_name == HANDOFF and agent.handoffs:
            answers[call.id] = _hand_off(call, agent.handoffs, handed_off)
            handed_off = handed_off or not answers[call.id].result.is_error
        elif call.tool_name not in agent.tools or not _exists(team, call.tool_name):
            answers[call.id] = failure(call.id, _not_allowed(call.tool_name, agent.tools, agent.handoffs))
    return answers


def _exists(team: Team, name: str) -> bool:
    return name in BUILTIN or team.tool(name) is not None


def _not_allowed(name: str, tools: tuple[str, ...], handoffs: tuple[str, ...]) -> str:
    possible = [*tools, HANDOFF] if handoffs else [*tools]
    return f"tool {name[:80]!r} is not on your list; you may call: {', '.join(possible) or 'no tools'}"


def _hand_off(call: ToolCall, allowed: tuple[str, ...], already: bool) -> Outcome:
    destination = call.args.get("destination_agent")
    if already:
        return failure(call.id, "the work was already handed off by another call of this step")
    if destination not in allowed:
        return failure(
            call.id,
            f"you cannot hand off to {str(destination)[:80]!r}; possible destinations: {', '.join(allowed)}",
        )
    return success(call, f"the work is handed off to {destination}")
