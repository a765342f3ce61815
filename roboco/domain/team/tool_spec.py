"""ToolSpec and TaskTool: a tool of a team, as its team file declares it."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from roboco.domain.schema import Effect, FunctionName, InputModel, Price, ToolName
from roboco.domain.team.approval import ApprovalTerms, ArgumentCondition


def _approval_kind(value: Any) -> str:
    return "word" if isinstance(value, str) else "test"


Approval = Annotated[
    Annotated[Literal["never", "required"], Tag("word")] | Annotated[ArgumentCondition, Tag("test")],
    Discriminator(_approval_kind),
]
"""The approval policy of a tool's calls, or a condition on the arguments of calls that need approval."""

Timeout = Annotated[float, Field(gt=0, le=86_400)]


class ToolDeclaration(ApprovalTerms):
    """The declaration of a tool, wherever it runs."""

    name: ToolName
    description: str | None = None
    effect: Effect = "irreversible"
    on_unknown: Literal["tell", "ask"] = "tell"
    """The policy if it is unknown whether an irreversible call had its effect: inform the agent, or ask a person."""
    approval: Approval = "never"
    """Whether a person must approve a call before it runs, or a condition on the arguments of such calls."""
    timeout: Timeout = 60.0
    """The timeout of a call, in seconds."""
    price: Price = 0.0
    """The cost of each call, in the currency of the profiles' prices. A call counts once, however often it runs."""

    @property
    def time_limit(self) -> float:
        """Return the seconds after which the worker ends a call that has not ended by itself."""
        return self.timeout


ExceptionName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.]*$")]


class ToolRetry(InputModel):
    """When a function runs again within its call: after these exceptions, whose classes may be named with their module.

    The delay doubles each time.
    """

    on: Annotated[tuple[ExceptionName, ...], Field(min_length=1, max_length=20)]
    times: Annotated[int, Field(ge=1, le=10)] = 3
    """How often it runs again at most."""
    delay: Annotated[float, Field(ge=0, le=600)] = 1.0
    """Seconds before it runs again for the first time."""


class ToolSpec(ToolDeclaration):
    """A tool of the team."""

    function: FunctionName
    """The function, as "package.module:name"."""
    retry: ToolRetry | None = None
    """When the function runs again. By default an exception is the result."""

    @model_validator(mode="after")
    def _repeatable(self) -> Self:
        if self.retry is not None and self.effect == "irreversible":
            raise ValueError("retry: needs effect: pure or idempotent, because the function runs again")
        return self


class AgentFunction(ToolSpec):
    """The function of an agent. A call of it is the agent's turn, and what it returns is the agent's answer."""


DEFAULT_QUEUE = "celery"
"""The default queue of a Celery application."""


class PydanticTurn(AgentFunction):
    """A request of an agent of pydantic-ai to its model, which is the agent's turn. Its function is that agent."""


class PydanticTool(ToolSpec):
    """A tool that an agent of pydantic-ai itself has. Its function is that agent."""


class TaskTool(ToolDeclaration):
    """A tool that is a Celery task of another application."""

    task: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.:-]*$")]
    """The name of the Celery task, which `tasks` of the operator's allowlist names."""
    queue: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")] = DEFAULT_QUEUE
    """The queue from which its workers take it."""
    description: Annotated[str, Field(min_length=1, max_length=4000)]
    """The description for the models."""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    """The JSON Schema of its arguments, which the Celery task gets by name."""
    on_stop: Literal["leave", "revoke", "terminate"] = "leave"
    """If its result is no longer needed: leave the Celery task, revoke it before it runs, or end its process too."""


def _tool_kind(value: Any) -> str:
    return "task" if isinstance(value, TaskTool) or (isinstance(value, dict) and "task" in value) else "function"


TeamTool = Annotated[Annotated[ToolSpec, Tag("function")] | Annotated[TaskTool, Tag("task")], Discriminator(_tool_kind)]
"""A tool that a team declares under `tools`."""


class ServerTool(ToolDeclaration):
    """A tool of an MCP server of the team."""

    server: str
    remote: str
    """The short name of the tool: see `server_tool_names`."""
    longest: float = 0.0
    """The seconds after which the worker ends a call with all that it needs: see `McpServer.time_limit`."""

    @property
    def time_limit(self) -> float:
        """Return the seconds after which the worker ends a call that has not ended by itself."""
        return self.longest or self.timeout
