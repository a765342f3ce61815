"""Team: the declared group of agents, as a team file holds it and as the workspace freezes it."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from roboco.domain.limits import Limits
from roboco.domain.schema import Declared, Name
from roboco.domain.team.collaboration import Collaboration, Sequential
from roboco.domain.team.context_policy import BudgetContext, ContextPolicy, RecentContext, SummaryContext
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.tool_spec import AnyTool, ServerTool, ToolSpec
from roboco.errors import UsageError

ALL_OF = "mcp:"
"""How an entry of an agent's tools begins that stands for all tools of a server."""
MAX_PROMPT = 256 * 1024
"""The largest prompt of an agent or message of a user, in characters."""


def prefix_of(server: str) -> str:
    """How the names of a server's tools begin, unless it has a prefix; `server` is its name, or "mcp:NAME"."""
    return f"{server.removeprefix(ALL_OF)}_"


class Agent(Declared):
    """A member of a team; `prompt` is a Jinja template, `model` names a profile.

    `handoffs` are the agents that it may hand over to, `delegates` the teams that it may give work to. `tool_choice`
    "required": each time that it is its turn, it has to call a tool before it answers; "first": so too, and then it
    answers without tools.
    """

    name: Name
    description: str = ""
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)]
    model: str | None = None
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    delegates: tuple[str, ...] = ()
    tool_choice: Literal["auto", "required", "first"] = "auto"
    context: ContextPolicy = RecentContext()

    @field_validator("context", mode="before")
    @classmethod
    def _default_strategy(cls, value: Any) -> Any:
        return {"strategy": "recent"} | value if isinstance(value, dict) else value


class Team(Declared):
    """A declared group of agents and how they work together.

    `on_message`: what becomes of a message that comes while they work, if it does not say so itself: it waits for the
    end of what is being done, interrupts that, or is refused. `teams` are those that agents may give work to.
    """

    name: Name
    description: str = ""
    models: dict[str, ModelProfile] = {}
    collaboration_model: Collaboration = Sequential(type="sequential")
    agents: Annotated[tuple[Agent, ...], Field(min_length=1)]
    tools: tuple[ToolSpec, ...] = ()
    mcp_servers: dict[Name, McpServer] = {}
    limits: Limits = Limits()
    on_message: Literal["queue", "interrupt", "reject"] = "queue"
    teams: "dict[Name, Team]" = {}

    def agent(self, name: str) -> Agent:
        """The agent of this name; KeyError if there is none."""
        return {agent.name: agent for agent in self.agents}[name]

    def check_agent(self, name: str | None) -> None:
        """UsageError if somebody is named who is not in the team."""
        if name is not None and not self.has(name):
            possible = ", ".join(agent.name for agent in self.agents)
            raise UsageError(f"agent: no agent {name!r} in team {self.name!r}, possible are {possible}")

    def has(self, name: str | None) -> bool:
        """Whether an agent of this name belongs to the team; the first steps of a fork may be another team's."""
        return any(agent.name == name for agent in self.agents)

    def tool(self, name: str) -> AnyTool | None:
        """The team's own tool of this name, or that of one of its servers; None for a built-in."""
        return next((tool for tool in self.tools if tool.name == name), None) or self._server_tool(name)

    def tools_of(self, agent: Agent) -> tuple[str, ...]:
        """The names of the agent's own tools.

        "mcp:NAME" stands for all tools of that server. It remains if the server's listing says which those are.
        """
        return tuple(name for listed in agent.tools for name in self._listed(listed))

    def may_call(self, agent: Agent, name: str) -> bool:
        """Whether the tool of this name is one of the agent's own; a server that it may use in full may not have it."""
        if name in self.tools_of(agent):
            return not name.startswith(ALL_OF)
        spec = self.tool(name) if any(tool.startswith(ALL_OF) for tool in agent.tools) else None
        return isinstance(spec, ServerTool) and f"{ALL_OF}{spec.server}" in agent.tools

    def open_server(self, name: str) -> str | None:
        """The server for whose listed tools this entry of an agent's tools stands; None for any other entry."""
        server = self.mcp_servers.get(name.removeprefix(ALL_OF)) if name.startswith(ALL_OF) else None
        return name.removeprefix(ALL_OF) if server is not None and server.takes_all else None

    def _listed(self, name: str) -> tuple[str, ...]:
        server = self.mcp_servers.get(name.removeprefix(ALL_OF)) if name.startswith(ALL_OF) else None
        return (name,) if server is None or server.takes_all else tuple(server.names(prefix_of(name)))

    def _server_tool(self, name: str) -> ServerTool | None:
        for server_name, server in self.mcp_servers.items():
            remote = server.remote_of(prefix_of(server_name), name)
            told = None if remote is None else server.settings_of(remote)
            if remote is not None and told is not None:
                return ServerTool(
                    name=name,
                    description=told.description,
                    effect=told.effect or "irreversible",
                    approval=told.approval,
                    timeout=server.timeout,
                    price=told.price,
                    server=server_name,
                    remote=remote,
                )
        return None

    def with_profile(self, name: str) -> "Team":
        """The team with this model profile as its default; UsageError if no agent would use it."""
        if name not in self.models:
            possible = ", ".join(self.models) or "none: the team declares no models"
            raise UsageError(f"model: no profile {name[:80]!r} in team {self.name!r}, possible are {possible}")
        if all(agent.model is not None for agent in self.agents):
            raise UsageError(f"model: every agent of team {self.name!r} names its profile, so none can be chosen")
        models = {one: profile.model_copy(update={"default": one == name}) for one, profile in self.models.items()}
        return self.model_copy(update={"models": models})

    @property
    def default_profile(self) -> str | None:
        """The name of the profile that agents use who name none; None if it is the environment's model."""
        default = [name for name, profile in self.models.items() if profile.default]
        return next(iter(default or self.models), None)

    def profile(self, agent: Agent) -> ModelProfile:
        """The agent's model profile: the named one, the default, the only one, or the environment's model."""
        if agent.model is not None:
            return self.models[agent.model]
        name = self.default_profile
        return ModelProfile(model="gpt-4o-mini") if name is None else self.models[name]

    @property
    def initial_agent(self) -> str:
        """Who acts first."""
        model = self.collaboration_model
        named = None if isinstance(model, Sequential) else model.initial_agent
        return named or self.agents[0].name

    @property
    def tail(self) -> int:
        """How many of the newest steps any agent or router of this team can need."""
        recent = [agent.context.steps for agent in self.agents if isinstance(agent.context, RecentContext)]
        budget = [_BUDGET_TAIL for agent in self.agents if isinstance(agent.context, BudgetContext)]
        summary = [2 * agent.context.steps + 2 for agent in self.agents if isinstance(agent.context, SummaryContext)]
        return max(_LEAST_TAIL, *recent, *budget, *summary)


_LEAST_TAIL = 20
_BUDGET_TAIL = 200
