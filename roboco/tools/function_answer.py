"""Answers of functions that are agents: `AgentAnswer`, and its form in the outcome of the call that is the turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roboco.domain.builtin_tools import CLIENT_PREFIX, DELEGATE, GOAL_PREFIX, HANDOFF
from roboco.domain.canonical_json import canonical_json, json_bytes
from roboco.domain.history.step import MAX_ANSWER_BYTES, OUTPUT, PROVIDER
from roboco.domain.team.team import Agent, Team
from roboco.errors import UsageError
from roboco.ports.file import File
from roboco.ports.tools import ToolContext
from roboco.tools.tool_result import to_json

MAX_CALLS: Final = 100
"""Calls of tools in one answer."""


@dataclass(frozen=True)
class AgentAnswer:
    """The result of a function that is an agent, if a text or the value of its `output` is not all."""

    text: str = ""
    output: Any = None
    """The value of its typed answer, if the agent has the field `output`."""
    handoff: str | None = None
    """The agent to which it hands over."""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Calls of the agent's tools, by name, with their arguments. With their results the function has a turn again."""
    files: Sequence[File] = ()
    """Files, which become artifacts of the task."""


def recorded_form(
    team: Team,
    returned: Any,
    checked: Callable[[Agent, Any], Any],
    context: ToolContext,
    provider: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the code of an agent has returned in the form that its outcome records.

    Changes of state go to the context. `provider` is what the code gets again with its answer.

    Raise UsageError if it hands over where the agent may not, calls a tool that the agent lacks, answers too much, or
    if the value does not fit the agent's output. Raise TypeError if it has no JSON.
    """
    agent = team.agent(context.agent)
    answer = returned if isinstance(returned, AgentAnswer) else _of_value(agent, returned)
    if not isinstance(answer.text, str):
        raise UsageError(f"AgentAnswer.text is a {type(answer.text).__name__}: use output=")
    calls = _calls_of(team, agent, answer)
    found: dict[str, Any] = {"text": answer.text} | ({"calls": calls} if calls else {})
    if agent.output is not None and (answer.output is not None or not calls):
        value = _fitting(agent, answer.output, checked)
        context.update_state(**{name: value[name] for name in agent.state if isinstance(value, dict) and name in value})
        found |= {"text": answer.text or canonical_json(value), OUTPUT: value}
    elif agent.pydantic_ai is not None and answer.output is not None:
        found[OUTPUT] = answer.output
    found |= {PROVIDER: dict(provider)} if provider else {}
    if (size := json_bytes(found)) > MAX_ANSWER_BYTES:
        raise UsageError(f"its answer has {size} bytes of JSON, at most {MAX_ANSWER_BYTES} are possible")
    return found


def _calls_of(team: Team, agent: Agent, answer: AgentAnswer) -> list[dict[str, Any]]:
    """Return the calls of the answer. Raise UsageError if the agent has no such tool.

    Tools of the client, and goals, are known to the task alone.
    """
    calls = [{"name": name, "args": to_json(dict(args), name)} for name, args in answer.calls]
    if answer.handoff is not None:
        if answer.handoff not in agent.handoffs:
            possible = ", ".join(agent.handoffs) or "none"
            raise UsageError(f"it cannot hand off to {answer.handoff[:80]!r}; possible destinations: {possible}")
        calls.append({"name": HANDOFF, "args": {"destination_agent": answer.handoff, "reason": ""}})
    if len(calls) > MAX_CALLS:
        raise UsageError(f"it made {len(calls)} calls, at most {MAX_CALLS} are possible in one answer")
    own = [tool for tool, allowed in ((HANDOFF, agent.handoffs), (DELEGATE, agent.delegates)) if allowed]
    for name, _ in answer.calls:
        known = name in own or team.may_call(agent, name) or agent.own_tool(name) is not None
        if not known and not name.startswith((CLIENT_PREFIX, GOAL_PREFIX)):
            possible = ", ".join([*team.tools_of(agent), *own]) or "none"
            raise UsageError(f"it cannot call {name[:80]!r}; possible tools: {possible}")
    return calls


def _fitting(agent: Agent, output: Any, checked: Callable[[Agent, Any], Any]) -> Any:
    try:
        return checked(agent, to_json(output, agent.name))
    except ValueError as error:
        raise UsageError(f"it returned a value that does not fit its output: {str(error)[:1000]}") from error


def _of_value(agent: Agent, returned: Any) -> AgentAnswer:
    if agent.output is not None:
        return AgentAnswer(output=returned)
    if returned is None or isinstance(returned, str):
        return AgentAnswer(returned or "")
    value = to_json(returned, agent.name)
    return AgentAnswer(canonical_json(value), value)
