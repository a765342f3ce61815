"""ToolSpec: a tool of a team, as its team file declares it."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from roboco.domain.schema import FUNCTION_PATTERN, InputModel, Price, ToolName
from roboco.domain.team.approval import ArgumentCondition
from roboco.domain.team.effect import Effect


def _approval_kind(value: Any) -> str:
    return "word" if isinstance(value, str) else "test"


Approval = Annotated[
    Annotated[Literal["never", "required"], Tag("word")] | Annotated[ArgumentCondition, Tag("test")],
    Discriminator(_approval_kind),
]
"""The approval policy of a tool's calls, or a condition on the arguments of calls that need approval."""


class ToolDeclaration(InputModel):
    """The declaration of a tool, wherever it runs."""

    name: ToolName
    description: str | None = None
    effect: Effect = "irreversible"
    on_unknown: Literal["tell", "ask"] = "tell"
    """The policy if it is unknown whether an irreversible call had its effect: inform the agent, or ask a person."""
    approval: Approval = "never"
    """Whether a person must approve a call before it runs, or a condition on the arguments of such calls."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """The timeout of a call, in seconds."""
    price: Price = 0.0
    """The cost of each call, in the currency of the profiles' prices. A call counts once, however often it runs."""

    @property
    def time_limit(self) -> float:
        """Return the seconds after which the worker ends a call that has not ended by itself."""
        return self.timeout


class ToolSpec(ToolDeclaration):
    """A tool of the team."""

    function: Annotated[str, Field(pattern=FUNCTION_PATTERN)]
    """The function, as "package.module:name"."""


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
