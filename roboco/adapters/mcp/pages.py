"""Pages: an MCP server's list of tools, read page by page within bounds: its server is not trusted."""

import re
import sys
from typing import Any

import mcp_types as types
from mcp import ClientSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

MOST_LISTED, MOST_OTHERS = 1000, 50
"""How many tools of a server are kept, and how many names of others; the rest is counted."""
MOST_PAGES = 100
"""How many pages of a server's list of tools are read."""
MAX_PAGES = 16 * 1024 * 1024
"""How many bytes pages may take in memory before another page is read."""
_NAME = re.compile(r"[!-~]{1,100}")


class Listed:
    """The tools of a server's list that are kept, and how many are not."""

    def __init__(self, server: McpServer) -> None:
        self.tools: dict[str, types.Tool] = {}
        self.others: list[str] = []
        self.more = 0
        self._server = server
        self._left = MAX_PAGES

    async def read(self, session: ClientSession) -> None:
        """Read the pages; UsageError if they are too large to read all of them."""
        cursor: str | None = None
        for number in range(1, MOST_PAGES + 1):
            cursor = self._add(await _page(session, cursor))
            if cursor is None or self._complete:
                return
            if self._left < 0:
                raise UsageError(_too_large(self._server, number))

    def _add(self, page: types.ListToolsResult) -> str | None:
        """Keep what the team may use of the page; return the cursor of the next page."""
        for tool in page.tools:
            self._keep(tool)
        if page.next_cursor is not None:
            self._left -= memory(page, self._left)
        return page.next_cursor

    def _keep(self, tool: types.Tool) -> None:
        """Keep the tool if the team may use it, or else its name, while there is room."""
        if self._server.settings_of(tool.name) is not None and len(self.tools) < MOST_LISTED:
            self.tools.setdefault(tool.name, tool)
        elif len(self.others) < MOST_OTHERS and _NAME.fullmatch(tool.name):
            self.others.append(tool.name)
        else:
            self.more += 1

    @property
    def _complete(self) -> bool:
        """Whether no further page can bring a tool that is kept."""
        return not self._server.takes_all and len(self.tools) == len(self._server.named)


def memory(value: Any, enough: int) -> int:
    """Return how many bytes the value from JSON takes; counting ends above `enough`."""
    size, left = 0, [value]
    while left and size <= enough:
        part = left.pop()
        size += sys.getsizeof(part)
        match part:
            case BaseModel():
                left += [vars(part), part.model_extra]
            case dict():
                left += [*part.keys(), *part.values()]
            case list():
                left += part
            case _:
                pass
    return size


def _too_large(server: McpServer, pages: int) -> str:
    return (
        f"MCP server {server.place!r} lists its tools in pages that are too large: the first {pages} take more "
        f"than {MAX_PAGES} bytes of memory, and more follow; have the server list fewer tools, or describe "
        "them in fewer words"
    )


async def _page(session: ClientSession, cursor: str | None) -> types.ListToolsResult:
    """Ask for a page. The package's `list_tools` keeps names and schemas of all tools for as long as the session lasts.

    Only servers of a modern revision need that: calls repeat in headers what such a list says.
    """
    params = types.PaginatedRequestParams(cursor=cursor)
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return await session.list_tools(params=params)
    return await session.send_request(types.ListToolsRequest(params=params), types.ListToolsResult)
