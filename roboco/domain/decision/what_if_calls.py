"""The calls of a run of `what-if` that have no recorded result: which of them run, and which are refused."""

from roboco.domain.builtin_tools import DELEGATE, MEMORY_TOOLS, RECALL
from roboco.domain.decision.tool_answers import is_client_call, requires_approval, spec_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.team.team import Team

REFUSED = "not run: this is a what-if run, and task "
"""The beginning of the error of a refused call."""


def takes_recorded_result(team: Team, step: TaskStep, call: ToolCall) -> bool:
    """Return True if a recorded result answers the call. Built-in tools run: their effects are in the run's own files.

    A delegation is answered, because a sub-task costs as much as its whole team, and so is a call about the memory,
    which other tasks share.
    """
    return call.tool_name in {DELEGATE, *MEMORY_TOOLS} or is_client_call(call) or spec_of(team, step, call) is not None


def refusal_reason(team: Team, step: TaskStep, call: ToolCall) -> str | None:
    """Return why a call without a recorded result does not run in this run, or None if it runs.

    A built-in tool affects only the run itself, unless it changes the memory, and a sub-task is a run too. An
    idempotent tool is refused: other arguments than the recorded ones would have another effect.
    """
    rule, spec = team.what_if, spec_of(team, step, call)
    changes_memory = spec is None and call.tool_name in MEMORY_TOOLS - {RECALL}
    if rule is None or (spec is None and not is_client_call(call) and not changes_memory):
        return None
    if changes_memory:
        why = "it changes the memory that other tasks share"
    elif spec is None:
        why = "the client runs it"
    elif spec.effect != "pure":
        why = f"its effect is {spec.effect}"
    elif call.tool_name in rule.effects:
        why = f"its effect is {rule.effects[call.tool_name]} in the task's own team"
    elif requires_approval(team, call):
        why = "a person must approve it"
    elif rule.unrecorded == "refuse":
        why = "calls without a recorded result are refused"
    else:
        return None
    asked = "after this conversation" if step.begins_function else "with these arguments"
    return f"{REFUSED}{rule.source!r} has no recorded result for {call.tool_name!r} {asked} ({why})"
