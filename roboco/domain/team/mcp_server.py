"""McpServer: a server of the Model Context Protocol that a team declares, and the tools that the team may use."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.schema import CredentialName, Effect, EnvVarName, InputModel, Price
from roboco.domain.team.approval import ApprovalTerms
from roboco.domain.team.server_tool_names import is_plain, names_by_short_name, short_names
from roboco.domain.url import check_url

MAX_SERVER_TOOLS = 200
"""The largest number of tools of one server that a team may use."""
ALL_TOOLS = "all"
"""In place of the names of a server's tools: all tools that it lists when a task first needs it."""
MAX_PROGRESS_FACTOR, MAX_PROGRESS_SECONDS = 10.0, 3600.0
"""While its server reports progress, a call lasts for this number of time-outs at most, and this number of seconds."""
_TIME_LIMIT_SLACK = 15.0
_RESERVED = frozenset({"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"})
_MAX_LOCATION_CHARS = 120

Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
RemoteName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]


class McpToolSettings(ApprovalTerms):
    """The team's settings of a server's tool."""

    effect: Effect | None = None
    """The effect of a call. If it is None, the server's annotations decide."""
    approval: Literal["never", "required"] = "never"
    description: Annotated[str, Field(max_length=4000)] | None = None
    """The description for agents. If it is None, the server's description is used."""
    price: Price = 0.0
    """The cost of each call, in the currency of the profiles' prices."""


def _kind(value: Any) -> str:
    return "all" if isinstance(value, str) else "named"


ServerTools = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[dict[RemoteName, McpToolSettings], Field(min_length=1, max_length=MAX_SERVER_TOOLS), Tag("named")],
    Discriminator(_kind),
]
"""The tools of a server that a team may use, by the server's names, or all of them."""


ServerUrl = Annotated[str, Field(max_length=2000), AfterValidator(check_url)]


class ClientCredentials(InputModel):
    """Client credentials of OAuth 2.1, as the server's authorization server has issued them."""

    issuer: ServerUrl
    """The URL of the authorization server. The secret is sent to no other."""
    client_id: EnvVarName
    """The variable of the worker with the id."""
    client_secret: EnvVarName
    """The variable of the worker with the secret."""
    scope: Annotated[str, Field(max_length=1000, pattern=r"^[!#-\[\]-~ ]+$")] | None = None
    """The scopes, separated by spaces. By default those that the server or the issuer names."""


def _auth_kind(value: Any) -> str:
    return "owner" if isinstance(value, str) else "client"


Auth = Annotated[
    Annotated[Literal["user", "tenant"], Tag("owner")] | Annotated[ClientCredentials, Tag("client")],
    Discriminator(_auth_kind),
]
"""Whose token a server gets: that of the task's user or tenant, or one for client credentials."""


class McpServer(InputModel):
    """A server that a worker starts with `command`, or reaches at `url`."""

    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=100)] | None = None
    url: ServerUrl | None = None
    env: tuple[EnvVarName, ...] | dict[EnvVarName, CredentialName | None] = ()
    """The variables of the command: a list of those of the worker that it inherits.

    In an object, a variable without a value is inherited, and one with a credential has that of the task's tenant.
    """
    headers: dict[Header, EnvVarName | CredentialName] = {}
    """For each header the variable of the worker, or the credential of the task's tenant, with its value.

    Values themselves are never part of a team file.
    """
    auth: Auth | None = None
    """The OAuth token: of the task's `user` or `tenant` from the function of ROBOCO_MCP_TOKENS, or of a client."""
    tools: ServerTools = "all"
    """The tools that the team may use.

    By default all tools that the server lists when a task first needs it, at most 200.
    """
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,62})?$")] | None = None
    """The prefix of its tools' names. By default it is the server's name and an underscore."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """The timeout of one call, in seconds."""
    connect_timeout: Annotated[float, Field(gt=0, le=300)] = 10.0
    """The timeout of the connection, in seconds."""

    @field_validator("tools", mode="before")
    @classmethod
    def _names_only(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            return value
        if twice := sorted({name for name in value if value.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} is named twice")
        return {name: {} for name in value}

    @field_validator("command")
    @classmethod
    def _startable(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and (not value[0] or any("\0" in word for word in value)):
            raise ValueError("must begin with a program, and hold no zero bytes")
        return value

    @field_validator("headers")
    @classmethod
    def _allowed_headers(cls, value: dict[str, Any]) -> dict[str, Any]:
        lower = [name.lower() for name in value]
        if taken := [name for name in value if name.lower() in _RESERVED or name.lower().startswith("mcp-")]:
            raise ValueError(f"header {taken[0]!r} belongs to the protocol")
        if len(set(lower)) < len(lower):
            raise ValueError("a header is named twice")
        return value

    @model_validator(mode="after")
    def _one_transport(self) -> "McpServer":
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either a command or a url")
        if self.command is None and self.env:
            raise ValueError("env is for a command: a url has headers")
        if self.url is None and self.headers:
            raise ValueError("headers are for a url: a command has env")
        if self.auth is not None and (
            self.url is None or any(name.lower() == "authorization" for name in self.headers)
        ):
            raise ValueError("auth is for a url without a header 'Authorization'")
        if self.prefix == "" and self.allows_all_tools:
            raise ValueError("an empty prefix needs the tools to be named: with all of them it would take every name")
        if self.prefix is not None:
            self.remote_names(self.prefix)
        return self

    @property
    def allows_all_tools(self) -> bool:
        """Return True if the team may use every tool that the server lists."""
        return self.tools == ALL_TOOLS

    @property
    def named_tools(self) -> dict[str, McpToolSettings]:
        """Return the tools that the team names, by the server's own names; none if the team may use all."""
        return {} if isinstance(self.tools, str) else self.tools

    def named_by_short_name(self, prefix: str) -> Mapping[str, str]:
        """Return each name under `tools` by the short name of its tool: see `server_tool_names`."""
        return names_by_short_name(self.name_prefix(prefix), tuple(self.named_tools))

    def settings_of(self, prefix: str, remote: str) -> McpToolSettings | None:
        """Return the team's settings of the tool with this short name, or None if the team may not use it."""
        if self.allows_all_tools:
            return McpToolSettings()
        named = self.named_by_short_name(prefix).get(remote)
        return None if named is None else self.named_tools[named]

    def remote_names(self, prefix: str) -> dict[str, str]:
        """Return the short name of each named tool by the name that agents call.

        Raise ValueError if the prefix is too long for one.
        """
        begins = self.name_prefix(prefix)
        names = short_names(begins, tuple(self.named_tools))
        if wrong := [name for name in self.named_tools if name not in names]:
            raise ValueError(
                f"tool name {begins + wrong[0]!r} must be a letter and up to 63 letters, digits, '_' and '-': choose a "
                "shorter prefix"
            )
        return {begins + short: short for short in names.values()}

    def remote_of(self, prefix: str, name: str) -> str | None:
        """Return the short name of the tool that agents call by this name.

        Return None if no tool of this server can have that name.
        """
        begins = self.name_prefix(prefix)
        remote = name.removeprefix(begins)
        if not name.startswith(begins) or not remote or not is_plain(name):
            return None
        return remote if self.allows_all_tools or remote in self.named_by_short_name(prefix) else None

    def name_of(self, prefix: str, remote: str) -> str | None:
        """Return the name by which agents call the tool with this short name, or None if they cannot call it."""
        name = self.name_prefix(prefix) + remote
        return name if self.remote_of(prefix, name) == remote else None

    def name_prefix(self, prefix: str) -> str:
        """Return the prefix of the names by which agents call the server's tools."""
        return prefix if self.prefix is None else self.prefix

    @property
    def longest_call(self) -> float:
        """Return the seconds after which a call ends although its server reports progress."""
        return max(self.timeout, min(MAX_PROGRESS_FACTOR * self.timeout, MAX_PROGRESS_SECONDS))

    @property
    def time_limit(self) -> float:
        """Return the seconds in which a worker lists the tools, opens a session, and makes a call."""
        return 2 * self.connect_timeout + self.longest_call + _TIME_LIMIT_SLACK

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the worker's variables that the server or its issuer gets."""
        credentials = self.auth if isinstance(self.auth, ClientCredentials) else None
        of_client = () if credentials is None else (credentials.client_id, credentials.client_secret)
        return (*self.env, *(one for one in self.headers.values() if isinstance(one, str)), *of_client)

    @property
    def credentials(self) -> dict[str, CredentialName]:
        """Return the credentials of the task's tenant that the server gets, by their variables or headers."""
        env = self.env if isinstance(self.env, dict) else {}
        return {name: value for name, value in (env | self.headers).items() if isinstance(value, CredentialName)}

    @property
    def cache_key(self) -> str:
        """Return the key of this declaration in caches. It contains names of variables, but no values."""
        return sha256(canonical_json(self.model_dump(mode="json")))

    @property
    def location(self) -> str:
        """Return the location of the server for messages: the command, or the URL without its query."""
        if self.command is not None:
            line = shlex.join(self.command)
            return line if len(line) <= _MAX_LOCATION_CHARS else f"{line[:_MAX_LOCATION_CHARS]}..."
        return (self.url or "").partition("?")[0][:_MAX_LOCATION_CHARS]
