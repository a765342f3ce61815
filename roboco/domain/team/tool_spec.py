"""ToolSpec: a tool of a team, as its file declares it."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from roboco.domain.schema import FUNCTION, Declared, Price, ToolName
from roboco.domain.team.approval import ArgumentTest

Effect = Literal["pure", "idempotent", "irreversible"]
"""What a tool does to the world, and so what becomes of a call whose worker is lost."""


def _approval_kind(value: Any) -> str:
    return "word" if isinstance(value, str) else "test"


Approval = Annotated[
    Annotated[Literal["never", "required"], Tag("word")] | Annotated[ArgumentTest, Tag("test")],
    Discriminator(_approval_kind),
]
"""Whether calls of a tool need approval, or a test of the arguments of those that do."""


class AnyTool(Declared):
    """What holds for a tool wherever it runs; `timeout` in seconds.

    `price` is what each call costs, in the currency of the profiles' prices. A call counts once, however often it runs.

    `on_unknown`: where nobody knows whether an irreversible call had its effect, tell the agent, or ask a person.
    `approval`: whether a person must approve a call before it runs, or a test of the arguments of those that need it.
    """

    name: ToolName
    description: str | None = None
    effect: Effect = "irreversible"
    on_unknown: Literal["tell", "ask"] = "tell"
    approval: Approval = "never"
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    price: Price = 0.0


class ToolSpec(AnyTool):
    """A tool of the team: `function` is "package.module:name"."""

    function: Annotated[str, Field(pattern=FUNCTION)]


class ServerTool(AnyTool):
    """A tool of an MCP server of the team: `remote` is its name there."""

    server: str
    remote: str
