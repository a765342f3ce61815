"""McpServer: a server of the Model Context Protocol that a team names, and which of its tools the team may use."""

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.schema import Declared, Price, Variable
from roboco.domain.url import url_mistake

MOST_TOOLS = 200
"""How many tools of one server a team may use."""
ALL = "all"
"""In place of the names of a server's tools: whatever it lists when a task first needs it."""
_REMOTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
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


def _kind(value: Any) -> str:
    return "all" if isinstance(value, str) else "named"


ServerTools = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[dict[RemoteName, McpToolSettings], Field(min_length=1, max_length=MOST_TOOLS), Tag("named")],
    Discriminator(_kind),
]
"""The tools of a server that a team may use, by the server's names, or all of them."""


class McpServer(Declared):
    """A server that is started with `command`, or reached at `url`; `tools` are those that the team may use.

    Without `tools`, or with "all", those are the tools that the server lists when a task first needs it, at most 200.

    `env` names variables of the worker that the command gets; `headers` says which variable's value each header
    carries: values themselves never stand here. `timeout` is for one call, `connect_timeout` for getting there, in
    seconds. `prefix` comes before the names of its tools; by default the server's name and an underscore.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=100)] | None = None
    url: Annotated[str, Field(max_length=2000)] | None = None
    env: tuple[Variable, ...] = ()
    headers: dict[Header, Variable] = {}
    tools: ServerTools = "all"
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
        if self.prefix == "" and self.takes_all:
            raise ValueError("an empty prefix needs the tools to be named: with all of them it would take every name")
        if self.prefix is not None:
            self.names(self.prefix)
        return self

    @property
    def takes_all(self) -> bool:
        """Whether the team may use whatever the server lists."""
        return self.tools == ALL

    @property
    def named(self) -> dict[str, McpToolSettings]:
        """The tools that the team names, by the server's own names; none if it takes all."""
        return {} if isinstance(self.tools, str) else self.tools

    def settings_of(self, remote: str) -> McpToolSettings | None:
        """What the team says of the server's tool; None if it may not use it."""
        if self.takes_all:
            return McpToolSettings() if _REMOTE_NAME.fullmatch(remote) else None
        return self.named.get(remote)

    def names(self, prefix: str) -> dict[str, str]:
        """The server's own name of each named tool by the name that agents call; ValueError if one is too long."""
        names = {self.begins(prefix) + name: name for name in self.named}
        if wrong := [name for name in names if not _TOOL_NAME.fullmatch(name)]:
            raise ValueError(f"tool name {wrong[0]!r} must be a letter and up to 63 letters, digits, '_' and '-'")
        return names

    def remote_of(self, prefix: str, name: str) -> str | None:
        """The server's own name of the tool that agents call so; None if it cannot be one of this server's."""
        begins = self.begins(prefix)
        remote = name.removeprefix(begins)
        if self.takes_all:
            possible = name.startswith(begins) and _REMOTE_NAME.fullmatch(remote) and _TOOL_NAME.fullmatch(name)
            return remote if possible else None
        return remote if name.startswith(begins) and remote in self.named else None

    def name_of(self, prefix: str, remote: str) -> str | None:
        """The name by which agents call the server's tool; None if they cannot."""
        name = self.begins(prefix) + remote
        return name if self.remote_of(prefix, name) == remote else None

    def begins(self, prefix: str) -> str:
        """How the names begin by which agents call its tools."""
        return prefix if self.prefix is None else self.prefix

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
