"""ServerNames: the names by which agents call the tools of a team's MCP servers, from the data of a team file."""

from collections.abc import Iterator
from itertools import permutations

from roboco.domain.builtin_tools import CLIENT_PREFIX, GOAL_PREFIX
from roboco.domain.team.mcp_server import ALL_TOOLS
from roboco.domain.team.team import default_prefix

_MAX_NAME_CHARS = 64
"""The largest number of characters of a tool's name in the chat completions protocol."""
_RESERVED = f"names that begin with {CLIENT_PREFIX!r} or {GOAL_PREFIX!r}"


class ServerNames:
    """The names in `mcp_servers`. Their types are validated by the models.

    `servers` are the servers, and `open_prefixes` the name prefix of each server that allows all its tools.
    """

    def __init__(self, servers: object) -> None:
        self.servers = [str(name) for name in servers] if isinstance(servers, dict) else []
        self.open_prefixes: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        for name, server in servers.items() if isinstance(servers, dict) else ():
            self._read(str(name), server if isinstance(server, dict) else {"tools": {}})

    @property
    def tools(self) -> list[str]:
        """Return the names by which agents call the tools that the team names."""
        return [name for names in self._named.values() for name in names]

    def may_have(self, name: str) -> bool:
        """Return True if a server that allows all its tools may have one with this name for agents."""
        return any(name.startswith(begins) and name != begins for begins in self.open_prefixes.values())

    def mistakes(self, taken: set[str]) -> Iterator[str]:
        """Yield the mistakes in the names; `taken` are the names of other tools."""
        taken = set(taken)
        for server, names in self._named.items():
            at = f"mcp_servers.{server}.tools"
            for name in names:
                if len(name) > _MAX_NAME_CHARS:
                    yield f"{at}: {name!r} is longer than {_MAX_NAME_CHARS} characters, choose a shorter prefix"
                if name in taken:
                    yield f"{at}: there is another tool {name!r}, choose another prefix"
                if name.startswith((CLIENT_PREFIX, GOAL_PREFIX)):
                    yield f"{at}: {_RESERVED} are not for servers: {name!r}"
                taken.add(name)
        yield from self._overlaps(taken)

    def _overlaps(self, taken: set[str]) -> Iterator[str]:
        """Yield names that could mean two tools, for any listing of a server that allows all its tools."""
        for server, begins in self.open_prefixes.items():
            at = f"mcp_servers.{server}"
            if other := next((name for name in sorted(taken) if name.startswith(begins)), ""):
                yield f"{at}: {other!r} begins with {begins!r}, as all of this server's tools do: choose another prefix"
            if any(kind.startswith(begins) or begins.startswith(kind) for kind in (CLIENT_PREFIX, GOAL_PREFIX)):
                yield f"{at}: {_RESERVED} are not for servers: {begins!r}"
        for (server, begins), (other, longer) in permutations(self.open_prefixes.items(), 2):
            if longer.startswith(begins) and (longer != begins or server < other):
                at = f"mcp_servers.{server}"
                yield f"{at}: all tools of {other!r} begin with {begins!r}, as this server's do: choose another prefix"

    def _read(self, name: str, server: dict[str, object]) -> None:
        tools, prefix = server.get("tools", ALL_TOOLS), server.get("prefix")
        begins = prefix if isinstance(prefix, str) else default_prefix(name)
        if tools == ALL_TOOLS:
            self.open_prefixes |= {name: begins} if begins else {}
        named = tools if isinstance(tools, list | tuple | dict) else ()
        self._named[name] = [f"{begins}{tool}" for tool in named]
