"""Team: the declared group of agents, as a team file contains it and as the workspace freezes it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from roboco.domain.limits import Limits
from roboco.domain.memory import MemorySettings
from roboco.domain.schema import TOOL_PATTERN, Effect, FunctionName, InputModel, Name, Price
from roboco.domain.team.collaboration import Collaboration, Custom, Graph, Sequential
from roboco.domain.team.context_policy import BudgetContext, ContextPolicy, RecentContext, SummaryContext
from roboco.domain.team.guards import Guards
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.team.tool_spec import (
    AgentFunction,
    Approval,
    PydanticTool,
    PydanticTurn,
    ServerTool,
    TaskTool,
    TeamTool,
    Timeout,
    ToolDeclaration,
    ToolRetry,
    ToolSpec,
)
from roboco.domain.team.what_if import WhatIf
from roboco.errors import UsageError

SERVER_TOOLS_PREFIX = "mcp:"
"""The prefix of an entry in an agent's tools that means all tools of a server."""
REMOTE_PREFIX = f"{REMOTE_AGENT}:"
"""The prefix of an entry in an agent's `delegates` that means a remote agent."""
MAX_PROMPT_CHARS = 256 * 1024
"""The largest prompt of an agent or message of a user, in characters."""
UTILITY = "utility"
"""The agent of a team for side requests, and the end of its name."""
MAX_SUB_TASKS = 100
"""The most items of a map."""


def default_prefix(server: str) -> str:
    """Return the default prefix of a server's tool names; `server` is its name, or "mcp:NAME"."""
    return f"{server.removeprefix(SERVER_TOOLS_PREFIX)}_"


LIST_PATTERN = r"^(output\.[A-Za-z][A-Za-z0-9_-]*|state\.[^.]+)(\.[^.]+)*$"
_KINDS = ("function", "pydantic_ai", "map")
_OF_FUNCTIONS = ("effect", "approval", "timeout", "retry", "price")


class Map(InputModel):
    """The work of an agent without a model: a sub-task of a team for each item of a list."""

    over: Annotated[str, Field(pattern=LIST_PATTERN, max_length=500)]
    """The list: `output.AGENT`, a field of it, or a value of the state such as "state.files"."""
    team: Name
    """The team of the sub-tasks. Its prompts have the item as `context.item`."""
    parallel: Annotated[int, Field(ge=1, le=MAX_SUB_TASKS)] = 10
    """The most sub-tasks that run at the same time."""
    on_error: Literal["keep", "fail"] = "keep"
    """If a sub-task fails: keep the other results, or fail the task once all have ended."""


class Agent(InputModel):
    """A member of a team."""

    name: Name
    description: str = ""
    function: FunctionName | None = None
    """A function "package.module:name" that has its turns in place of a model."""
    pydantic_ai: FunctionName | None = None
    """An agent of pydantic-ai "package.module:name" that has its turns, with its own model and tools."""
    deps: FunctionName | None = None
    """A function "package.module:name" that returns the `deps` of that agent."""
    effect: Effect | None = None
    """The effect of the function, or of the tools of the agent of pydantic-ai; by default that of tools."""
    approval: Approval | None = None
    """Whether a person must approve each of the function's turns; by default that of tools."""
    timeout: Timeout | None = None
    """The timeout of the function, in seconds; by default that of tools."""
    retry: ToolRetry | None = None
    """When the function runs again within its turn."""
    price: Price | None = None
    """The cost of each turn of the function."""
    map: Map | None = None
    """A sub-task for each item of a list, in place of turns of a model."""
    prompt: Annotated[str, Field(max_length=MAX_PROMPT_CHARS, validate_default=True)] = ""
    """The system prompt, a Jinja template."""
    model: str | None = None
    """The name of a profile. By default it is the team's default profile."""
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    """The agents to which it may hand over the work."""
    delegates: tuple[str, ...] = ()
    """The teams to which it may delegate work, and remote agents: "a2a:NAME" for a profile with `provider: a2a`."""
    parallel: Annotated[int, Field(ge=1)] | None = None
    """The most sub-tasks of one step that run at the same time. None is no limit."""
    tool_choice: Literal["auto", "required", "first"] = "auto"
    """With "required" or "first" the agent must call a tool, each time it is its turn, before it answers.

    With "first" it then answers without tools.
    """
    output: dict[str, Any] | FunctionName | None = None
    """The type of its answer: a JSON Schema, or a type of Python as "package.module:NAME". By default it is text."""
    validator: FunctionName | None = Field(default=None, alias="validate")
    """A function "package.module:NAME" that checks the value of its answer, and may replace it."""
    state: tuple[str, ...] = ()
    """The fields of its output that become values of the task's state."""
    goals: tuple[str, ...] | None = None
    """The goals that it may achieve. By default all those of the task that no other agent names."""
    context: ContextPolicy = RecentContext()

    @field_validator("prompt")
    @classmethod
    def _has_one_kind(cls, value: str, info: ValidationInfo) -> str:
        """Require exactly one of a prompt, a function, an agent of pydantic-ai and a map, unless these are wrong."""
        if any(name not in info.data for name in _KINDS):
            return value
        kinds = [name for name in _KINDS if info.data[name] is not None]
        if not kinds and not value:
            raise ValueError("needs prompt, prompt_file, function, pydantic_ai or map")
        if kinds and value:
            raise ValueError(f"an agent with the field {kinds[0]} has no prompt")
        return value

    @model_validator(mode="after")
    def _has_needed_fields(self) -> Self:
        """Refuse a field without the one that it needs, such as a field of functions for an agent with a model."""
        kinds = [name for name in _KINDS if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise ValueError(f"{kinds[0]} and {kinds[1]} exclude each other")
        needed = {"deps": "pydantic_ai", "validator": "output", "state": "output"}
        needed |= dict.fromkeys(_OF_FUNCTIONS, "function") if self.code is None else {}
        for name, other in needed.items():
            if getattr(self, name) not in (None, ()) and getattr(self, other) is None:
                raise ValueError(f"{type(self).model_fields[name].alias or name}: needs the field {other}")
        return self if self.code is None else self._checked_code()

    def _checked_code(self) -> Self:
        """Refuse fields of models for a function, and those of tools for an agent of pydantic-ai."""
        if self.model is not None or self.tool_choice != "auto" or isinstance(self.context, SummaryContext):
            field = "function" if self.function else "pydantic_ai"
            raise ValueError(f"an agent with the field {field} has no model, tool_choice and context of a summary")
        if self.pydantic_ai is not None and (self.tools or self.handoffs or self.delegates or self.retry):
            raise ValueError("an agent of pydantic-ai has no tools, handoffs, delegates and retry of the team")
        if self.retry is not None and self.effect not in ("pure", "idempotent"):
            raise ValueError("retry: needs effect: pure or idempotent, because the function runs again")
        return self

    @property
    def code(self) -> str | None:
        """Return the name of the function, or agent of pydantic-ai, that has its turns, or None if a model has them."""
        return self.function or self.pydantic_ai

    def own_tool(self, name: str) -> PydanticTool | None:
        """Return the tool that the agent of pydantic-ai itself has under this name, or None for any other name."""
        if self.pydantic_ai is None or not name.startswith(f"{self.name}__") or not re.match(TOOL_PATTERN, name):
            return None
        return PydanticTool(name=name, function=self.pydantic_ai, **self._given())

    def _given(self) -> dict[str, Any]:
        return {name: value for name in _OF_FUNCTIONS if (value := getattr(self, name)) is not None}

    @property
    def has_model(self) -> bool:
        """Return True if a profile of the team has the agent's turns: it has no code, and no map."""
        return self.code is None and self.map is None

    @property
    def turn_call(self) -> AgentFunction | None:
        """Return the tool whose call is the agent's turn, or None if it is no function.

        If it is unknown whether its function had an effect, a person is asked: no model can find out.
        """
        about: dict[str, Any] = {"name": self.name, "description": self.description, "on_unknown": "ask"}
        if self.function is not None:
            return AgentFunction(**about, **self._given(), function=self.function)
        if self.pydantic_ai is not None:  # its tools have the fields of the agent
            return PydanticTurn(**about, function=self.pydantic_ai, effect="idempotent", timeout=self.timeout or 60.0)
        return None

    @property
    def sub_teams(self) -> tuple[str, ...]:
        """Return the names of the teams of its sub-tasks."""
        return self.delegates if self.map is None else (self.map.team,)

    @property
    def max_parallel(self) -> int | None:
        """Return the most sub-tasks of one step that run at the same time, or None if there is no limit."""
        return self.parallel if self.map is None else self.map.parallel

    def achieves(self, goal: str, team: "Team") -> bool:
        """Return True if the agent may achieve the goal: it names it, or no agent of the team does."""
        if self.map is not None:
            return False
        if self.goals is not None:
            return goal in self.goals
        return all(goal not in (agent.goals or ()) for agent in team.agents)

    @field_validator("context", mode="before")
    @classmethod
    def _default_strategy(cls, value: Any) -> Any:
        return {"strategy": "recent"} | value if isinstance(value, dict) else value


class Team(InputModel):
    """A declared group of agents and the rules of their collaboration."""

    name: Name
    description: str = ""
    models: dict[str, ModelProfile] = {}
    collaboration_model: Collaboration = Sequential(type="sequential")
    agents: Annotated[tuple[Agent, ...], Field(min_length=1)]
    tools: tuple[TeamTool, ...] = ()
    mcp_servers: dict[Name, McpServer] = {}
    limits: Limits = Limits()
    memory: MemorySettings | None = None
    """Whose memory its agents share across tasks. By default the team has none."""
    guards: Guards | None = None
    """The checks of messages before agents see them, and of answers before the user does. By default there are none."""
    if_busy: Literal["queue", "interrupt", "reject"] = "queue"
    """The default for messages that arrive while an agent works: wait, interrupt the work, or be refused."""
    teams: "dict[Name, Team]" = {}
    """The teams to which agents may delegate work."""
    utility_model: str | None = None
    """The profile that answers the requests of chat front ends for titles, tags and the like, without its agents.

    They name the model `TEAM:utility` of the gateway.
    """
    what_if: SkipJsonSchema[WhatIf | None] = None
    """The rule of a run of `what-if`; None in every other task, and in every team file."""

    def utility(self, preferred: str | None = None) -> "Team | None":
        """Return the team that answers as the preferred profile, if it has that, or as `utility_model`, or None.

        It has one agent, without tools, and the guards.
        """
        profile = preferred if preferred in self.models else self.utility_model
        if profile is None:
            return None
        agent = Agent(name=UTILITY, prompt="Do the request. Answer with its result alone.", model=profile)
        changes = {"agents": (agent,), "collaboration_model": Sequential(type="sequential"), "memory": None}
        return self.model_copy(update=changes)

    def sub_team(self, name: str) -> "Team":
        """Return the team of sub-tasks of this name: one of `teams`, or for "a2a:NAME" the remote agent alone."""
        remote = name.removeprefix(REMOTE_PREFIX)
        if remote == name:
            return self.teams[name]
        profile = self.models[remote].model_copy(update={"default": True, "fallback": ()})
        about = profile.description or f"The remote agent {profile.label or remote}."
        agent = Agent(name=remote, description=about, prompt="The remote agent.")
        return Team(name=remote, description=about, agents=(agent,), models={remote: profile}, what_if=self.what_if)

    def agent(self, name: str) -> Agent:
        """Return the agent with this name.

        Raise KeyError if there is none.
        """
        return {agent.name: agent for agent in self.agents}[name]

    def check_agent(self, name: str | None) -> None:
        """Raise UsageError if the name is not that of an agent of the team."""
        if name is not None and not self.has_agent(name):
            possible = ", ".join(agent.name for agent in self.agents)
            raise UsageError(f"agent: no agent {name!r} in team {self.name!r}, possible are {possible}")

    def check_message(self, agent: str | None, attachments: Mapping[str, Any]) -> None:
        """Raise UsageError if a message, or a client tool that it declares, names an agent that the team lacks."""
        tools = attachments.get("client_tools", ())
        for name in (agent, *(name for tool in tools for name in tool.get("agents", ()))):
            self.check_agent(name)

    def has_agent(self, name: str | None) -> bool:
        """Return True if the team has an agent with this name.

        The first steps of a fork may be those of another team.
        """
        return any(agent.name == name for agent in self.agents)

    @property
    def functions(self) -> tuple[str, ...]:
        """Return the names of the user's own functions and types, without those of other teams."""
        model = self.collaboration_model
        router = [model.router] if isinstance(model, Custom) else []
        types = [name for agent in self.agents for name in (agent.output, agent.validator) if isinstance(name, str)]
        deps = [agent.deps for agent in self.agents if agent.deps is not None]
        return (*(tool.function for tool in self.function_tools), *router, *types, *deps)

    @property
    def declared_tools(self) -> tuple[ToolSpec | TaskTool, ...]:
        """Return the team's tools, then the calls that are the turns of its agents that are functions."""
        turns = (agent.turn_call for agent in self.agents)
        return (*self.tools, *(call for call in turns if call is not None))

    @property
    def function_tools(self) -> tuple[ToolSpec, ...]:
        """Return those of the declared tools that are functions."""
        return tuple(tool for tool in self.declared_tools if isinstance(tool, ToolSpec))

    def task_tool(self, name: str) -> TaskTool | None:
        """Return the Celery task of this name among the team's tools, or None."""
        found = self.tool(name)
        return found if isinstance(found, TaskTool) else None

    def tool(self, name: str) -> ToolDeclaration | None:
        """Return the team's own tool with this name, or that of one of its servers; None for a built-in tool.

        The name of an agent that is a function is that of the call which is its turn.
        """
        own = next((tool for tool in self.tools if tool.name == name), None)
        turn: ToolSpec | None = next((agent.turn_call for agent in self.agents if agent.name == name), None)
        turn = turn or next((tool for agent in self.agents if (tool := agent.own_tool(name)) is not None), None)
        return own or turn or self._server_tool(name)

    def tools_of(self, agent: Agent) -> tuple[str, ...]:
        """Return the names of the agent's own tools.

        "mcp:NAME" means all tools of that server. It remains in the result if only the server's listing can expand it.
        """
        return tuple(name for listed in agent.tools for name in self._expanded(listed))

    def may_call(self, agent: Agent, name: str) -> bool:
        """Return True if the name is one of the agent's own tools. A server that allows all its tools may lack it."""
        if name in self.tools_of(agent):
            return not name.startswith(SERVER_TOOLS_PREFIX)
        spec = self.tool(name) if any(tool.startswith(SERVER_TOOLS_PREFIX) for tool in agent.tools) else None
        return isinstance(spec, ServerTool) and f"{SERVER_TOOLS_PREFIX}{spec.server}" in agent.tools

    def server_of_entry(self, name: str) -> str | None:
        """Return the server whose listed tools this entry of an agent's tools means, or None for any other entry."""
        server = self._server_named(name)
        return name.removeprefix(SERVER_TOOLS_PREFIX) if server is not None and server.allows_all_tools else None

    def _expanded(self, name: str) -> tuple[str, ...]:
        server = self._server_named(name)
        return (
            (name,) if server is None or server.allows_all_tools else tuple(server.remote_names(default_prefix(name)))
        )

    def _server_named(self, entry: str) -> McpServer | None:
        named, prefix, server = entry.partition(SERVER_TOOLS_PREFIX)
        return None if named or not prefix else self.mcp_servers.get(server)

    def _server_tool(self, name: str) -> ServerTool | None:
        for server_name, server in self.mcp_servers.items():
            remote = server.remote_of(default_prefix(server_name), name)
            settings = None if remote is None else server.settings_of(default_prefix(server_name), remote)
            if remote is not None and settings is not None:
                return ServerTool(
                    name=name,
                    description=settings.description,
                    effect=settings.effect or "irreversible",
                    approval=settings.approval,
                    **settings.terms,
                    timeout=server.timeout,
                    longest=server.time_limit,
                    price=settings.price,
                    server=server_name,
                    remote=remote,
                )
        return None

    def with_profile(self, name: str) -> "Team":
        """Return the team with this model profile as its default.

        Raise UsageError if no agent would use it.
        """
        if name not in self.models:
            possible = ", ".join(self.models) or "none: the team declares no models"
            raise UsageError(f"model: no profile {name[:80]!r} in team {self.name!r}, possible are {possible}")
        if all(agent.model is not None or not agent.has_model for agent in self.agents):
            raise UsageError(f"model: every agent of team {self.name!r} names its profile, so none can be chosen")
        models = {one: profile.model_copy(update={"default": one == name}) for one, profile in self.models.items()}
        return self.model_copy(update={"models": models})

    @property
    def default_profile(self) -> str | None:
        """Return the name of the default profile, or None if it is the model of the environment."""
        default = [name for name, profile in self.models.items() if profile.default]
        return next(iter(default or self.models), None)

    def profile(self, agent: Agent) -> ModelProfile:
        """Return the agent's model profile: the named one, the default, the only one, or the environment's model."""
        if agent.model is not None:
            return self.models[agent.model]
        name = self.default_profile
        return ModelProfile(model="gpt-4o-mini") if name is None else self.models[name]

    @property
    def initial_agent(self) -> str:
        """Return the name of the agent that acts first."""
        model = self.collaboration_model
        named = None if isinstance(model, Sequential) else model.initial_agent
        return named or self.agents[0].name

    @property
    def holds_text(self) -> bool:
        """Return True if no text of a model is shown before guards have passed it."""
        return self.guards is not None and bool(self.guards.output)

    @property
    def routes_by_run(self) -> bool:
        """Return True if the team's routing may depend on an agent's whole run: on a condition, or on code."""
        model = self.collaboration_model
        edges = (edge for out in model.routing_graph.values() for edge in out) if isinstance(model, Graph) else ()
        return isinstance(model, Custom) or any(edge.when is not None for edge in edges)

    @property
    def tail_length(self) -> int:
        """Return the number of the newest steps that any agent or router of this team can need."""
        recent = [agent.context.steps for agent in self.agents if isinstance(agent.context, RecentContext)]
        budget = [_BUDGET_TAIL for agent in self.agents if isinstance(agent.context, BudgetContext)]
        summary = [2 * agent.context.steps + 2 for agent in self.agents if isinstance(agent.context, SummaryContext)]
        return max(_MIN_TAIL, *recent, *budget, *summary)


_MIN_TAIL = 20
_BUDGET_TAIL = 200
