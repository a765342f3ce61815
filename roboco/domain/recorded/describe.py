"""Descriptions of actions: the recorded action at a position, and the action that `decide` chooses."""

from typing import assert_never

from roboco.domain.decision.action import Action, AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.history.part import ErrorPart, TextPart, ToolResultPart
from roboco.domain.history.state import REMINDED_GOALS
from roboco.domain.history.step import FUNCTION, NEW_LIMITS, TOOL_EXECUTOR, USER


def rule_of(action: Action) -> str:
    """Return the rule that chose an agent or the user, or "" if there is none."""
    if isinstance(action, AppendStep):
        return str((action.metadata.get("routing") or {}).get("rule", ""))
    return action.route.rule if isinstance(action, StartTurn | Wait) else ""


def describe(action: Action, before: tuple[Action, ...] = ()) -> str:
    """Return a description of the action, after those of the actions before it."""
    return ", then ".join(_describe_action(one) for one in (*before, action))


def _describe_action(action: Action) -> str:
    match action:
        case StartTurn():
            return f"{action.agent} acts ({action.route.router}: {action.route.rule})"
        case CallTools():
            return f"tools run: {', '.join(call.tool_name for call in action.calls)}"
        case AppendStep():
            return _describe_step(action)
        case Wait():
            return f"waits ({action.status}): {action.route.reason}"
        case End():
            return f"ends ({action.status}): {action.reason}"
        case unknown:
            assert_never(unknown)


def _describe_step(step: AppendStep) -> str:
    if step.agent_name == USER:
        rule = rule_of(step)
        return f"the user's message is applied ({rule})" if rule else "the user's message is applied"
    if step.agent_name == TOOL_EXECUTOR:
        results = [part.tool_result for part in step.parts if isinstance(part, ToolResultPart)]
        failed = sum(result.is_error for result in results)
        failures = f", {failed} of them errors" if failed else ""
        return f"{len(results)} result{'s' if len(results) != 1 else ''}{failures}"
    if step.metadata.get(FUNCTION) == "call":
        return f"{step.agent_name} acts, a function ({rule_of(step)})"
    if goals := step.metadata.get(REMINDED_GOALS):
        return f"the agent is reminded of open goals: {', '.join(map(str, goals))}"
    if NEW_LIMITS in step.metadata:
        return "the limits are raised"
    errors = [f"{part.code}: {part.message}" for part in step.parts if isinstance(part, ErrorPart)]
    return errors[0] if errors else "".join(part.text for part in step.parts if isinstance(part, TextPart))
