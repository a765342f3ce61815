"""An MCP server's list of tools, read page by page within limits, because servers are not trusted."""

import re
import sys
from typing import Any

import mcp_types as types
from mcp import ClientSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

MAX_LISTED_TOOLS, MAX_OTHER_NAMES = 1000, 50
"""Maximum number of tools that are kept, and of names of other tools. The rest is counted."""
MAX_PAGES = 100
"""Maximum number of pages of a server's list that are read."""
MAX_PAGES_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes that the pages may take in memory before another page is read."""
_SHOWABLE_NAME = re.compile(r"[!-~]{1,100}")


class ToolPages:
    """The tools of a server's list that are kept, the names of some others, and the number of the rest."""

    def __init__(self, server: McpServer) -> None:
        self.tools: dict[str, types.Tool] = {}
        self.other_names: list[str] = []
        self.unnamed_count = 0
        self._server = server
        self._bytes_left = MAX_PAGES_BYTES

    async def read(self, session: ClientSession) -> None:
        """Read the pages. Raise UsageError if they are too large to read all of them."""
        cursor: str | None = None
        for number in range(1, MAX_PAGES + 1):
            cursor = self._add_page(await _request_page(session, cursor))
            if cursor is None or self._is_complete:
                return
            if self._bytes_left < 0:
                raise UsageError(_too_large_message(self._server, number))

    def _add_page(self, page: types.ListToolsResult) -> str | None:
        """Keep the tools of the page that the team may use. Return the cursor of the next page, or None."""
        for tool in page.tools:
            self._add_tool(tool)
        if page.next_cursor is not None:
            self._bytes_left -= memory_size(page, self._bytes_left)
        return page.next_cursor

    def _add_tool(self, tool: types.Tool) -> None:
        """Keep the tool if the team may use it, or else its name, while there is room."""
        if self._server.settings_of(tool.name) is not None and len(self.tools) < MAX_LISTED_TOOLS:
            self.tools.setdefault(tool.name, tool)
        elif len(self.other_names) < MAX_OTHER_NAMES and _SHOWABLE_NAME.fullmatch(tool.name):
            self.other_names.append(tool.name)
        else:
            self.unnamed_count += 1

    @property
    def _is_complete(self) -> bool:
        """Return True if no further page can add a tool that is kept."""
        return not self._server.allows_all_tools and len(self.tools) == len(self._server.named_tools)


def memory_size(value: Any, limit: int) -> int:
    """Return the number of bytes that the JSON value takes in memory; counting ends above `limit`."""
    size, left = 0, [value]
    while left and size <= limit:
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


def _too_large_message(server: McpServer, pages: int) -> str:
    return (
        f"MCP server {server.location!r} lists its tools in pages that are too large: the first {pages} take more "
        f"than {MAX_PAGES_BYTES} bytes of memory, and more follow; have the server list fewer tools, or describe "
        "them in fewer words"
    )


async def _request_page(session: ClientSession, cursor: str | None) -> types.ListToolsResult:
    """Request a page.

    The package's `list_tools` keeps names and schemas of all tools as long as the session lasts. Only servers of a
    modern protocol revision need that: each call repeats a part of the list in its headers.
    """
    params = types.PaginatedRequestParams(cursor=cursor)
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return await session.list_tools(params=params)
    return await session.send_request(types.ListToolsRequest(params=params), types.ListToolsResult)
