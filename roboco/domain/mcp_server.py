"""McpServer: a server of the Model Context Protocol that a team names, and which of its tools the team may use."""

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from roboco.domain.address import url_mistake
from roboco.domain.canonical import canonical, sha256
from roboco.domain.declared import Declared, Price, Variable

MOST_TOOLS = 200
"""How many tools of one server a team may use."""
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_RESERVED = frozenset({"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"})
_SHOWN = 120

Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
RemoteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Effect = Literal["pure", "idempotent", "irreversible"]


class McpToolSettings(Declared):
    """What the team says of a server's tool; where `effect` or `description` is None, the server decides.

    `price` is what each call costs, in the currency of the profiles' prices.
    """

    effect: Effect | None = None
    approval: Literal["never", "required"] = "never"
    description: Annotated[str, Field(max_length=4000)] | None = None
    price: Price = 0.0


class McpServer(Declared):
    """A server that is started with `command`, or reached at `url`; `tools` are those that the team may use.

    `env` names variables of the worker that the command gets; `headers` says which variable's value each header
    carries: values themselves never stand here. `timeout` is for one call, `connect_timeout` for getting there, in
    seconds. `prefix` comes before the names of its tools; by default the server's name and an underscore.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=100)] | None = None
    url: Annotated[str, Field(max_length=2000)] | None = None
    env: tuple[Variable, ...] = ()
    headers: dict[Header, Variable] = {}
    tools: Annotated[dict[RemoteName, McpToolSettings], Field(min_length=1, max_length=MOST_TOOLS)]
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,62})?$")] | None = None
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    connect_timeout: Annotated[float, Field(gt=0, le=300)] = 10.0

    @field_validator("tools", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        if twice := sorted({name for name in value if isinstance(name, str) and value.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} is named twice")
        return {name: {} for name in value}

    @field_validator("command")
    @classmethod
    def _startable(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and (not value[0] or any("\0" in word for word in value)):
            raise ValueError("must begin with a program, and hold no zero bytes")
        return value

    @field_validator("url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and (mistake := url_mistake(value)):
            raise ValueError(mistake)
        return value

    @field_validator("headers")
    @classmethod
    def _headers_of_ours(cls, value: dict[str, str]) -> dict[str, str]:
        lower = [name.lower() for name in value]
        if taken := [name for name in value if name.lower() in _RESERVED or name.lower().startswith("mcp-")]:
            raise ValueError(f"header {taken[0]!r} belongs to the protocol")
        if len(set(lower)) < len(lower):
            raise ValueError("a header is named twice")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> "McpServer":
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either a command or a url")
        if self.command is None and self.env:
            raise ValueError("env is for a command: a url has headers")
        if self.url is None and self.headers:
            raise ValueError("headers are for a url: a command has env")
        if self.prefix is not None:
            self.names(self.prefix)
        return self

    def names(self, prefix: str) -> dict[str, str]:
        """The server's own name of each tool by the name that agents call; ValueError if one of those is too long."""
        names = {(self.prefix if self.prefix is not None else prefix) + name: name for name in self.tools}
        if wrong := [name for name in names if not _TOOL_NAME.fullmatch(name)]:
            raise ValueError(f"tool name {wrong[0]!r} must be a letter and up to 63 letters, digits, '_' and '-'")
        return names

    @property
    def key(self) -> str:
        """What this declaration is known by in caches; it holds names of variables, and no value."""
        return sha256(canonical(self.model_dump(mode="json")))

    @property
    def place(self) -> str:
        """Where the server is, for messages: the command, or the address without its query."""
        if self.command is not None:
            line = shlex.join(self.command)
            return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
        return (self.url or "").partition("?")[0][:_SHOWN]
