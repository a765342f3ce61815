"""The tools of an MCP server as a task stores them and as an agent sees them."""

import logging
from functools import lru_cache

from roboco.adapters.mcp.tool import ListedTools, McpTool, apply_team_settings, unreachable_tool
from roboco.domain.team.known_tools import LIST_TOOLS, missing_tools_error
from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS, McpServer
from roboco.domain.team.team import Team, default_prefix
from roboco.domain.team.tool_listing import MAX_LISTING_CHARS, ListedTool, Listing
from roboco.errors import UsageError

_log = logging.getLogger(__name__)
_MAX_SHOWN_NAMES = 5


def build_listing(team: Team, server: str, offer: ListedTools) -> Listing:
    """Return the listing that a task stores. Raise UsageError if it is too large."""
    declared = team.mcp_servers[server]
    called = callable_tools(declared, server, offer)
    if declared.allows_all_tools and len(called) > MAX_SERVER_TOOLS:
        count = len(offer.tools) + len(offer.other_names) + offer.unnamed_count
        raise UsageError(
            f"MCP server {server!r} lists {count} tools, at most {MAX_SERVER_TOOLS} are kept: name those "
            "that the team needs under 'tools'"
        )
    if declared.allows_all_tools and (left_out := describe_left_out(called, offer)):
        _warn_once(f"MCP server {server!r}: {left_out}")
    listing = Listing(
        tools={remote: _to_listed_tool(tool) for remote, tool in called.items()},
        missing=missing_tools_error(team, server, called, offer.other_names),
    )
    size = len(listing.model_dump_json())
    if size > MAX_LISTING_CHARS:
        raise UsageError(
            f"MCP server {server!r} lists {len(called)} tools in {size} characters, at most {MAX_LISTING_CHARS} are "
            "kept: name fewer of its tools in the team"
        )
    return listing


def callable_tools(declared: McpServer, server: str, offer: ListedTools) -> dict[str, McpTool]:
    """Return the tools that agents can call, by the server's own names: valid names, with the server's prefix."""
    return {
        name: tool for name, tool in offer.tools.items() if declared.name_of(default_prefix(server), name) is not None
    }


def find_listed_tool(server: McpServer, remote: str, listing: Listing | None) -> ListedTool | None:
    """Return the tool as the listing describes it, or None if the server has no such tool.

    If the server was never listed, return a tool that accepts any object; its description contains the reason.
    """
    if listing is None or listing.error:
        why = "its tools are not listed" if listing is None else listing.error
        if server.allows_all_tools and remote == LIST_TOOLS:
            why = f"{why}. Call this to list all of its tools"
        return _to_listed_tool(apply_team_settings(server, remote, unreachable_tool(why)))
    return listing.tools.get(remote)


def describe_left_out(called: dict[str, McpTool], offer: ListedTools) -> str:
    """Return a text that names the tools that agents cannot call because of their names, or "" if there are none."""
    names = [name for name in offer.tools if name not in called]
    count = len(names) + len(offer.other_names) + offer.unnamed_count
    shown = ", ".join(map(repr, [*names, *offer.other_names][:_MAX_SHOWN_NAMES])) or "names that cannot be shown"
    rule = "with its prefix a name is a letter and up to 63 letters, digits, '_' and '-'"
    return f"{count} tools are left out because of their names ({shown}): {rule}" if count else ""


@lru_cache(maxsize=256)
def _warn_once(text: str) -> None:
    """Log the text once per process: a server is listed before each call."""
    _log.warning("%s", text)


def _to_listed_tool(tool: McpTool) -> ListedTool:
    return ListedTool(description=tool.description, input_schema=tool.input_schema, effect=tool.effect)
