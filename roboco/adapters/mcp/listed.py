"""Listed: the tools of an MCP server as a task keeps them, and as an agent sees them."""

from roboco.adapters.mcp.tool import McpTool, as_team_says, unreachable
from roboco.domain.listing import MAX_LISTING, ListedTool, Listing
from roboco.domain.mcp_server import McpServer
from roboco.errors import UsageError


def as_listing(server: str, found: dict[str, McpTool]) -> Listing:
    """The listing that a task keeps; UsageError if it is too large."""
    listing = Listing(tools={name: _kept(tool) for name, tool in found.items()})
    size = len(listing.model_dump_json())
    if size > MAX_LISTING:
        raise UsageError(
            f"MCP server {server!r} describes {len(found)} tools in {size} characters, at most {MAX_LISTING} are kept: "
            "name fewer of its tools in the team"
        )
    return listing


def listed_tool(server: McpServer, remote: str, listing: Listing | None) -> ListedTool | None:
    """The tool as the listing describes it; one that takes any object, and says why, if the server was never listed.

    None if the server has no such tool.
    """
    if listing is None or listing.error:
        why = "its tools are not listed" if listing is None else listing.error
        return _kept(as_team_says(server, remote, unreachable(why)))
    return listing.tools.get(remote)


def _kept(tool: McpTool) -> ListedTool:
    return ListedTool(description=tool.description, input_schema=tool.input_schema, effect=tool.effect)
