"""A small MCP server over stdio, for the team `research`: `python -m roboco.examples.library`.

It gives high water levels, in centimetres above chart datum, that were made up for this example.
"""

from typing import Literal

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("library", log_level="CRITICAL")

LEVELS = {
    "cuxhaven": (341, 352, 347, 333, 358, 349, 344),
    "helgoland": (268, 275, 271, 262, 279, 273, 270),
    "husum": (402, 415, 409, 396, 421, 411, 405),
}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def measurements(place: Literal["cuxhaven", "helgoland", "husum"]) -> dict[str, object]:
    """High water levels of a week at a place on the North Sea, in centimetres."""
    return {"place": place, "unit": "cm", "high_water": list(LEVELS[place])}


if __name__ == "__main__":
    server.run()
