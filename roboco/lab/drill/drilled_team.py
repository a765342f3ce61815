"""drilled_team: the user's team, with stand-ins in place of its tools and the drill's model server in place of others.

Prompts, routing, limits, effects and descriptions stay as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from roboco.cli.doctor.server_tools import ListingResult
from roboco.domain.team.mcp_server import McpToolSettings
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import SERVER_TOOLS_PREFIX, Agent, Team, default_prefix
from roboco.domain.team.tool_spec import ServerTool, TaskTool, TeamTool, ToolSpec
from roboco.errors import UsageError
from roboco.lab.drill.stand_ins import StandIn, function_name
from roboco.tools.function_loader import FunctionLoader

MAX_TOOL_TIMEOUT: Final = 4.0
"""Seconds that a tool may take at most in a drill, so that a hanging one does not delay it."""
MAX_MODEL_TIMEOUT: Final = 4.0
"""Seconds of silence of the scripted model after which a turn is tried again, for the same reason."""
SUMMARIES: Final = "summaries"
"""The agent in the path of requests that make a summary."""


@dataclass
class Replacement:
    """How the tools and models of a team are replaced, and what was."""

    server: str
    """The address of the drill's model server."""
    real_tools: frozenset[str]
    functions: FunctionLoader
    listings: Mapping[tuple[int, str], ListingResult]
    """The tools of MCP servers, by the identity of the team and the name of the server."""
    real_model: bool = False
    stand_ins: list[StandIn] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The tools that the team lacks in the drill, with the reasons."""

    def apply(self, team: Team) -> Team:
        """Return the team for the drill."""
        functions = [self._function(one) for one in team.tools]
        listed = {name: self._server_tools(team, name) for name in team.mcp_servers if not self._is_real(name)}
        tools = [*functions, *(tool for specs in listed.values() for tool in specs)]
        names = {f"{SERVER_TOOLS_PREFIX}{name}": [tool.name for tool in tools] for name, tools in listed.items()}
        known = {tool.name for tool in tools}
        changes: dict[str, Any] = {
            "tools": tuple(tools),
            "mcp_servers": {name: one for name, one in team.mcp_servers.items() if name not in listed},
            "models": self._models(team),
            "agents": tuple(self._agent(team, agent, names, known) for agent in team.agents),
            "teams": {name: self.apply(inner) for name, inner in team.teams.items()},
        }
        return team.model_copy(update=changes)

    def _is_real(self, server: str) -> bool:
        return f"{SERVER_TOOLS_PREFIX}{server}" in self.real_tools

    def _add(self, stand_in: StandIn) -> str:
        """Add the stand-in, and return the name of its function."""
        self.stand_ins.append(stand_in)
        return function_name(len(self.stand_ins) - 1)

    def _function(self, spec: TeamTool) -> ToolSpec:
        if isinstance(spec, TaskTool):
            return self._task(spec)
        description = spec.description or self.functions.tool(spec.function).description
        real = spec.name in self.real_tools
        function = self._add(StandIn(spec.name, spec.function, description, real=real))
        timeout = spec.timeout if real else min(spec.timeout, MAX_TOOL_TIMEOUT)
        return spec.model_copy(update={"function": function, "timeout": timeout})

    def _task(self, spec: TaskTool) -> ToolSpec:
        """Return a stand-in for a Celery task of another application, which a drill never runs."""
        common = {key: getattr(spec, key) for key in ("name", "effect", "approval", "on_unknown", "price")}
        function = self._add(StandIn(spec.name, "", spec.description, spec.parameters))
        return ToolSpec(**common, timeout=min(spec.timeout, MAX_TOOL_TIMEOUT), function=function)

    def _server_tools(self, team: Team, server: str) -> list[ToolSpec]:
        """Return stand-ins for the tools of a server, as it lists them, or without arguments if it is not listed."""
        declared, listing = team.mcp_servers[server], self.listings.get((id(team), server))
        offered = {} if listing is None else listing.offer.tools
        if not offered:
            lost = "its tools have no arguments here" if declared.named_tools else "the drill leaves it out"
            why = listing.error if listing is not None else "it was not asked"
            self.notes.append(f"MCP server {server!r} is not listed, so {lost}: {why}")
        specs = []
        prefix = default_prefix(server)
        for remote in offered or declared.named_by_short_name(prefix):
            name, offer = declared.name_of(prefix, remote), offered.get(remote)
            spec = None if name is None else team.tool(name)
            if name is None or spec is None:
                continue
            settings = declared.settings_of(prefix, remote) or McpToolSettings()
            effect = settings.effect or (offer.effect if offer else "irreversible")
            stand_in = StandIn(name) if offer is None else StandIn(name, "", offer.description, offer.input_schema)
            common = {key: getattr(spec, key) for key in ("name", "approval", "on_unknown", "price")}
            timeout = min(spec.timeout, MAX_TOOL_TIMEOUT)
            specs.append(ToolSpec(**common, effect=effect, timeout=timeout, function=self._add(stand_in)))
        return specs

    def _models(self, team: Team) -> dict[str, ModelProfile]:
        """Return a profile for each agent, and one for summaries for each of the team's profiles."""
        models = (agent for agent in team.agents if agent.has_model)
        agents = {_profile_name(agent): self._profile(team, agent.name, team.profile(agent)) for agent in models}
        return {name: self._profile(team, SUMMARIES, one) for name, one in team.models.items()} | agents

    def _profile(self, team: Team, agent: str, profile: ModelProfile) -> ModelProfile:
        changes: dict[str, Any] = {"base_url": f"{self.server}/{team.name}/{agent}/v1", "default": False}
        if self.real_model:
            key = profile.api_key_env or (None if profile.base_url or profile.api_key else "OPENAI_API_KEY")
            return profile.model_copy(update=changes | {"api_key_env": key})
        changes |= {
            "tool_calls": "native",
            "api_key_env": None,
            "api_key": None,
            "requests_per_minute": None,
            "tokens_per_minute": None,
        }
        for name in ("first_token_timeout", "idle_timeout"):
            changes[name] = min(getattr(profile, name), MAX_MODEL_TIMEOUT)
        return profile.model_copy(update=changes)

    def _agent(self, team: Team, agent: Agent, names: Mapping[str, list[str]], known: set[str]) -> Agent:
        """Return the agent with its own model profile, and without tools of servers that are left out."""
        tools = [one for name in agent.tools for one in names.get(name, [name])]
        kept = [name for name in tools if name in known or not self._is_replaced(team, name)]
        changes: dict[str, Any] = {"tools": tuple(dict.fromkeys(kept))}
        if agent.turn_call is None:
            return agent.model_copy(update=changes | ({"model": _profile_name(agent)} if agent.has_model else {}))
        turn = self._function(agent.turn_call)
        return agent.model_copy(update=changes | {"function": turn.function, "timeout": turn.timeout})

    def _is_replaced(self, team: Team, name: str) -> bool:
        spec = team.tool(name)
        return isinstance(spec, ServerTool) and not self._is_real(spec.server)


def check_real_tools(team: Team, names: Iterable[str]) -> frozenset[str]:
    """Return the names. Raise UsageError if one is neither a tool nor `mcp:SERVER` of the team or of a team in it."""
    teams = list(all_teams(team))
    known = {tool.name for one in teams for tool in one.function_tools}
    known |= {f"{SERVER_TOOLS_PREFIX}{name}" for one in teams for name in one.mcp_servers}
    real = frozenset(names)
    if unknown := sorted(real - known):
        possible = ", ".join(sorted(known)) or "none: the team has no tools"
        raise UsageError(f"--real-tools: the team has no tool {unknown[0]!r}, possible are {possible}")
    return real


def model_addresses(team: Team, default: str) -> dict[tuple[str, str], str]:
    """Return the address of the model server of each agent, and of summaries, by the names in the path of a request."""
    found = {}
    for one in all_teams(team):
        summary = next(iter(one.models.values()), None)
        found[one.name, SUMMARIES] = (summary.base_url if summary else None) or default
        found |= {(one.name, agent.name): one.profile(agent).base_url or default for agent in one.agents}
    return found


def all_teams(team: Team) -> Iterable[Team]:
    """Yield the team, and the teams in it."""
    yield team
    for inner in team.teams.values():
        yield from all_teams(inner)


def _profile_name(agent: Agent) -> str:
    return f"drill {agent.name}"
