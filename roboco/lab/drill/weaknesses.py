"""weaknesses: what a team file leaves open, and what the runs have shown of it. Warnings, not broken promises."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from roboco.domain.team.collaboration import Graph
from roboco.domain.team.context_policy import BudgetContext, RecentContext, SummaryContext
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_spec import AgentFunction, ToolSpec
from roboco.tools.function_loader import FunctionLoader

MAX_RECENT_STEPS: Final = 50
MAX_CONTEXT_TOKENS: Final = 100_000
_PRICED_LIMITS: Final = ("max_tokens", "max_cost", "max_seconds")


@dataclass(frozen=True)
class Weakness:
    """A weakness of a team: where it is, what may happen, and what to write."""

    code: str
    place: str
    text: str
    remedy: str


def find_weaknesses(team: Team, functions: FunctionLoader, place: str = "") -> Iterator[Weakness]:
    """Yield the weaknesses of a team file, and of the teams in it."""
    yield from _tool_weaknesses(team, functions, place)
    yield from _server_weaknesses(team, place)
    yield from _limit_weaknesses(team, place)
    for index, agent in enumerate(team.agents):
        yield from _context_weaknesses(agent, f"{place}agents[{index}]")
    yield from _loop_weaknesses(team, place)
    for name, inner in team.teams.items():
        yield from find_weaknesses(inner, functions, f"{place}teams.{name}.")


def _tool_weaknesses(team: Team, functions: FunctionLoader, place: str) -> Iterator[Weakness]:
    for index, spec in enumerate(team.declared_tools):
        kind = "agent" if isinstance(spec, AgentFunction) else f"tools[{index}]"
        at = f"{place}{kind} {spec.name}"
        if "timeout" not in spec.model_fields_set:
            text = f"the tool has no timeout, so a call that hangs holds a worker for {spec.timeout:g} s"
            yield Weakness("no_timeout", at, text, "write timeout: SECONDS")
        verify = functions.tool(spec.function).verify if isinstance(spec, ToolSpec) else None
        if spec.effect == "irreversible" and verify is None:
            declared = (
                "" if "effect" in spec.model_fields_set else " (a tool is irreversible unless it declares `effect`)"
            )
            text = f"the tool is irreversible{declared} and has no `verify`: after a crash its outcome stays unknown"
            remedy = "write @tool(verify=...), or effect: pure or idempotent if a repetition does no harm"
            yield Weakness("no_verify", at, text, remedy)


def _server_weaknesses(team: Team, place: str) -> Iterator[Weakness]:
    for name, server in team.mcp_servers.items():
        if "timeout" not in server.model_fields_set:
            text = f"calls of the server have no timeout, so one that hangs holds a worker for {server.timeout:g} s"
            yield Weakness("no_timeout", f"{place}mcp_servers.{name}", text, "write timeout: SECONDS")
        for tool, settings in server.named_tools.items():
            if settings.effect == "irreversible":
                text = "the tool is irreversible, and servers have no `verify`: after a crash its outcome stays unknown"
                remedy = "write effect: idempotent if a repetition does no harm, or approval: required"
                if settings.approval != "required":
                    yield Weakness("no_verify", f"{place}mcp_servers.{name}.tools.{tool}", text, remedy)


def _limit_weaknesses(team: Team, place: str) -> Iterator[Weakness]:
    if all(getattr(team.limits, name) is None for name in _PRICED_LIMITS):
        text = f"nothing but {team.limits.max_steps} steps limits what a task uses"
        yield Weakness("no_limits", f"{place}limits", text, f"write one of {', '.join(_PRICED_LIMITS)}")
    for name, profile in (team.models or {"(none)": ModelProfile(model="the environment's")}).items():
        if profile.max_tokens is None and team.limits.max_tokens is None and team.limits.max_tokens_out is None:
            text = "nothing limits the length of a reply"
            yield Weakness("no_limits", f"{place}models.{name}", text, "write max_tokens")


def _context_weaknesses(agent: Agent, place: str) -> Iterator[Weakness]:
    match agent.context:
        case SummaryContext(steps=steps) if 2 * steps > MAX_RECENT_STEPS:
            text = f"the prompt of {agent.name!r} grows up to {2 * steps} steps before they are summarised"
        case RecentContext(steps=steps) if steps > MAX_RECENT_STEPS:
            text = f"the prompt of {agent.name!r} grows up to {steps} steps, and each turn pays for all of them"
        case BudgetContext(tokens=tokens) if tokens > MAX_CONTEXT_TOKENS:
            text = f"the prompt of {agent.name!r} grows up to {tokens} tokens, and each turn pays for all of them"
        case _:
            return
    yield Weakness("growing_context", f"{place}.context", text, "use fewer, or strategy: summary")


def _loop_weaknesses(team: Team, place: str) -> Iterator[Weakness]:
    graph = team.collaboration_model
    if not isinstance(graph, Graph):
        return
    edges = {
        node: {edge.to for edge in listed if edge.max_times is None and team.has_agent(edge.to)}
        for node, listed in graph.routing_graph.items()
    }
    looping = sorted(node for node in edges if node in _reachable(edges, node))
    if looping:
        text = f"agents may act in turns without an end: {', '.join(looping)}"
        yield Weakness("no_limits", f"{place}collaboration_model", text, "write max_times at an edge that leads back")


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    found, left = set[str](), list(edges.get(start, ()))
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += edges.get(node, ())
    return found


def lost_message(agents: Iterable[str]) -> Weakness:
    """Return the weakness that a run has shown: after an interruption the prompt lacks the user's message."""
    text = "after an interruption, the next prompt did not hold the user's message"
    return Weakness("lost_message", f"agents {', '.join(agents)}", text, "keep more steps in `context`")


def changed_end(fault: str, status: str, reason: str, usual: str) -> Weakness:
    """Return the weakness that a run has shown: under a fault the task ends otherwise."""
    text = f"under {fault} the task is {status} instead of {usual}: {reason or 'no reason is given'}"
    return Weakness("changed_end", "the team", text, "give the tool a `verify`, or raise limits and time-outs")
