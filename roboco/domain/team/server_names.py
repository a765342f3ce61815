"""ServerNames: the names by which agents call the tools of a team's MCP servers, from the data of a team file."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

from roboco.domain.builtin_tools import CLIENT_PREFIX, GOAL_PREFIX
from roboco.domain.team.mcp_server import ALL_TOOLS
from roboco.domain.team.server_tool_names import short_names
from roboco.domain.team.team import default_prefix

_RESERVED = f"names that begin with {CLIENT_PREFIX!r} or {GOAL_PREFIX!r}"


class ServerNames:
    """The names in `mcp_servers`. Their types are validated by the models.

    `servers` are the servers, and `open_prefixes` the name prefix of each server that allows all its tools.
    """

    def __init__(self, servers: object) -> None:
        self.servers = [str(name) for name in servers] if isinstance(servers, dict) else []
        self.open_prefixes: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        self._own_names: dict[str, str] = {}
        for name, server in servers.items() if isinstance(servers, dict) else ():
            self._read(str(name), server if isinstance(server, dict) else {"tools": {}})

    def with_offered_names(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data of the team, with the name by which agents call it for each tool of a server."""
        agents, limits = data.get("agents"), data.get("limits")
        if isinstance(agents, list):
            data = data | {"agents": [_renamed_tools(agent, self._listed) for agent in agents]}
        if isinstance(limits, dict):
            data = data | {"limits": _renamed_tools(limits, self._limited)}
        return data | {key: self._in_conditions(data[key]) for key in ("collaboration_model",) if key in data}

    def _in_conditions(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._in_conditions(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.offered_name(one)
            if key in ("tool_called", "tool_failed") and isinstance(one, str)
            else self._in_conditions(one)
            for key, one in value.items()
        }

    def _listed(self, tools: Any) -> Any:
        names = tools if isinstance(tools, list) else []
        return [self.offered_name(name) if isinstance(name, str) else name for name in names] or tools

    def _limited(self, tools: Any) -> Any:
        limits = tools if isinstance(tools, dict) else {}
        return {self.offered_name(name): limit for name, limit in limits.items()} or tools

    @property
    def tools(self) -> list[str]:
        """Return the names by which agents call the tools that the team names."""
        return [name for names in self._named.values() for name in names]

    def offered_name(self, name: str) -> str:
        """Return the name by which agents call the tool: a team file may also have the prefix and the server's name."""
        if name in self._own_names:
            return self._own_names[name]
        begins = next((begins for begins in self.open_prefixes.values() if name.startswith(begins)), None)
        own = "" if begins is None else name.removeprefix(begins)
        return name if begins is None else begins + short_names(begins, (own,)).get(own, own)

    def may_have(self, name: str) -> bool:
        """Return True if a server that allows all its tools may have one with this name for agents."""
        return any(name.startswith(begins) and name != begins for begins in self.open_prefixes.values())

    def mistakes(self, taken: set[str]) -> Iterator[str]:
        """Yield the mistakes in the names; `taken` are the names of other tools."""
        taken = set(taken)
        for server, names in self._named.items():
            at = f"mcp_servers.{server}.tools"
            for name in names:
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
        short = short_names(begins, tuple(tool for tool in named if isinstance(tool, str)))
        self._named[name] = [begins + one for one in short.values()]
        self._own_names |= {begins + own: begins + one for own, one in short.items() if own != one}


def _renamed_tools(holder: Any, rename: Callable[[Any], Any]) -> Any:
    return holder | {"tools": rename(holder["tools"])} if isinstance(holder, dict) and "tools" in holder else holder
