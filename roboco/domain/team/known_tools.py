"""known_tools: an agent's tools according to the listings of its MCP servers, and tools that a server lacks."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from roboco.domain.team.team import SERVER_TOOLS_PREFIX, Agent, Team, default_prefix
from roboco.domain.team.tool_listing import Listing
from roboco.domain.team.tool_spec import ServerTool

LIST_TOOLS = "list_tools"
"""A placeholder for the tools of a server that allows all and is not listed yet: a call of it lists them."""
_MAX_LISTED_NAMES, _MAX_REASONS = 20, 5
"""The largest number of names in a message, and of reasons."""


def known_tools(team: Team, agent: Agent, listings: Mapping[str, Listing]) -> tuple[str, ...]:
    """Return the names of the agent's own tools, with the tools that its servers list in place of "mcp:NAME"."""
    return tuple(dict.fromkeys(name for one in team.tools_of(agent) for name in _names(team, one, listings)))


def _names(team: Team, name: str, listings: Mapping[str, Listing]) -> Iterable[str]:
    if (server := team.server_of_entry(name)) is None:
        return (name,)
    listing = listings.get(server)
    remotes = (LIST_TOOLS,) if listing is None or listing.error else listing.tools
    called = (team.mcp_servers[server].name_of(default_prefix(server), remote) for remote in remotes)
    return (one for one in called if one is not None)


def unlisted_tool_error(team: Team, agent: Agent, name: str, listings: Mapping[str, Listing]) -> str:
    """Return the reason why the agent cannot call a tool that its server does not list, or "" for any other tool.

    Without a listing any name of the server's may be called: the call lists the tools.
    """
    spec = team.tool(name)
    if not isinstance(spec, ServerTool) or not team.mcp_servers[spec.server].allows_all_tools:
        return ""
    listing = listings.get(spec.server)
    if listing is None or listing.error or spec.remote in listing.tools or not team.may_call(agent, name):
        return ""
    return (
        f"MCP server {spec.server!r} has no tool {name!r}; you may call: {_listed(known_tools(team, agent, listings))}"
    )


def missing_tools_error(
    team: Team,
    server: str,
    has: Iterable[str],
    others: Iterable[str] = (),
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return an error about the server's tools that the team names and the server does not list, or "".

    `has` are the listed tools that the team may use, `others` the names of the rest, and `left_out` the tools that
    cannot be offered, with the reasons.
    """
    listed = list(has)
    named = team.mcp_servers[server].named_by_short_name(default_prefix(server))
    lacking = [named.get(remote, remote) for remote in _named(team, server) if remote not in listed]
    if not lacking:
        return ""
    found = _listed([*listed, *others])
    why = "".join(f"; {name!r} is left out: {left_out[name]}" for name in lacking[:_MAX_REASONS] if name in left_out)
    return (
        f"MCP server {server!r} has no tool {_listed(lacking)}, which team {team.name!r} names; it lists: {found}{why}"
        "; correct the name in the team file"
    )


def _named(team: Team, server: str) -> list[str]:
    """Return the short names of the tools that the team names: for the server, for agents and in limits."""
    declared = team.mcp_servers[server]
    listed = [name for agent in team.agents for name in agent.tools if not name.startswith(SERVER_TOOLS_PREFIX)]
    remotes = [declared.remote_of(default_prefix(server), name) for name in [*listed, *team.limits.tools]]
    own = declared.named_by_short_name(default_prefix(server))
    return list(dict.fromkeys([*own, *(remote for remote in remotes if remote is not None)]))


def _listed(names: Iterable[str]) -> str:
    quoted = [repr(name) for name in names]
    more = f" and {len(quoted) - _MAX_LISTED_NAMES} more" if len(quoted) > _MAX_LISTED_NAMES else ""
    return f"{', '.join(quoted[:_MAX_LISTED_NAMES]) or 'no tools'}{more}"
