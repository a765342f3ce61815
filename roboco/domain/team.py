"""Team: the declared group of agents, as a team file holds it and as the workspace freezes it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

from roboco.domain.approval import ArgumentTest
from roboco.domain.condition import Condition
from roboco.errors import UsageError

END = "END"
TO_USER = "USER"
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
FUNCTION = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
MAX_PROMPT = 256 * 1024
"""The largest prompt of an agent or message of a user, in characters."""


class Declared(BaseModel):
    """A model that a user writes: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())


class ModelProfile(Declared):
    """A named model: `model` as its server calls it; time-outs in seconds; `label` and `description` are for people."""

    model: Annotated[str, Field(min_length=1)]
    base_url: str | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    first_token_timeout: Annotated[float, Field(gt=0)] = 120.0
    idle_timeout: Annotated[float, Field(gt=0)] = 60.0
    default: bool = False
    label: str = ""
    description: str = ""


class RecentContext(Declared):
    """Working memory of the newest `steps` steps."""

    strategy: Literal["recent"] = "recent"
    steps: Annotated[int, Field(ge=1, le=500)] = 20


class BudgetContext(Declared):
    """Working memory of as many of the newest steps as fit `tokens` estimated tokens."""

    strategy: Literal["budget"]
    tokens: Annotated[int, Field(ge=100)] = 8000


ContextPolicy = Annotated[RecentContext | BudgetContext, Field(discriminator="strategy")]


class Agent(Declared):
    """A member of a team; `prompt` is a Jinja template, `model` names a profile.

    `handoffs` are the agents that it may hand over to, `delegates` the teams that it may give work to.
    """

    name: Name
    description: str = ""
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)]
    model: str | None = None
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    delegates: tuple[str, ...] = ()
    context: ContextPolicy = RecentContext()

    @field_validator("context", mode="before")
    @classmethod
    def _default_strategy(cls, value: Any) -> Any:
        return {"strategy": "recent"} | value if isinstance(value, dict) else value


def _approval_kind(value: Any) -> str:
    return "word" if isinstance(value, str) else "test"


Approval = Annotated[
    Annotated[Literal["never", "required"], Tag("word")] | Annotated[ArgumentTest, Tag("test")],
    Discriminator(_approval_kind),
]
"""Whether calls of a tool need approval, or a test of the arguments of those that do."""


class ToolSpec(Declared):
    """A tool of the team: `function` is "package.module:name"; `timeout` in seconds.

    `on_unknown`: where nobody knows whether an irreversible call had its effect, tell the agent, or ask a person.
    `approval`: whether a person must approve a call before it runs, or a test of the arguments of those that need it.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
    function: Annotated[str, Field(pattern=FUNCTION)]
    description: str | None = None
    effect: Literal["pure", "idempotent", "irreversible"] = "irreversible"
    on_unknown: Literal["tell", "ask"] = "tell"
    approval: Approval = "never"
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0


class Limits(Declared):
    """What a task may spend: steps, tokens in and out together, and seconds since it was submitted or forked.

    `goal_prompts`: how often after each message its agents are reminded of goals that are still open.
    """

    max_steps: Annotated[int, Field(ge=1)] = 100
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    goal_prompts: Annotated[int, Field(ge=0, le=20)] = 2


class Edge(Declared):
    """A way out of a node; it may be taken at most `max_times` times in a task."""

    to: str
    when: Condition | None = None
    max_times: Annotated[int, Field(ge=1)] | None = None


class Sequential(Declared):
    """The agents in order, `rounds` times, then END."""

    type: Literal["sequential"]
    rounds: Annotated[int, Field(ge=1)] = 1


class Manual(Declared):
    """After every agent's turn control goes back to the user."""

    type: Literal["manual"]
    initial_agent: str | None = None


class Graph(Declared):
    """Nodes are agents, edges are conditions on the last visit; the first edge that holds is taken."""

    type: Literal["graph"]
    initial_agent: str | None = None
    routing_graph: dict[str, tuple[Edge, ...]]

    @field_validator("routing_graph", mode="before")
    @classmethod
    def _edge_by_name(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {node: [_edge(edge) for edge in _edges(edges)] for node, edges in value.items()}


class Custom(Declared):
    """A router of the user's own: `router` is "package.module:function"."""

    type: Literal["custom"]
    router: Annotated[str, Field(pattern=FUNCTION)]
    initial_agent: str | None = None


Collaboration = Annotated[Sequential | Manual | Graph | Custom, Field(discriminator="type")]


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

    def tool(self, name: str) -> ToolSpec | None:
        """The team's own tool of this name; None for a built-in."""
        return next((tool for tool in self.tools if tool.name == name), None)

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
        return max(_LEAST_TAIL, *recent, *budget)


_LEAST_TAIL = 20
_BUDGET_TAIL = 200


def _edges(edges: Any) -> list[Any]:
    return list(edges) if isinstance(edges, list | tuple) else [edges]


def _edge(edge: Any) -> Any:
    return {"to": edge} if isinstance(edge, str) else edge
