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

MOST_LISTED, MOST_OTHERS = 1000, 50
"""Maximum number of tools that are kept, and of names of other tools. The rest is counted."""
MOST_PAGES = 100
"""Maximum number of pages of a server's list that are read."""
MAX_PAGES = 16 * 1024 * 1024
"""Maximum number of bytes that the pages may take in memory before another page is read."""
_NAME = re.compile(r"[!-~]{1,100}")


class Listed:
    """The tools of a server's list that are kept, the names of some others, and the number of the rest."""

    def __init__(self, server: McpServer) -> None:
        self.tools: dict[str, types.Tool] = {}
        self.others: list[str] = []
        self.more = 0
        self._server = server
        self._left = MAX_PAGES

    async def read(self, session: ClientSession) -> None:
        """Read the pages. Raise UsageError if they are too large to read all of them."""
        cursor: str | None = None
        for number in range(1, MOST_PAGES + 1):
            cursor = self._add(await _page(session, cursor))
            if cursor is None or self._complete:
                return
            if self._left < 0:
                raise UsageError(_too_large(self._server, number))

    def _add(self, page: types.ListToolsResult) -> str | None:
        """Keep the tools of the page that the team may use. Return the cursor of the next page, or None."""
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
        """Return True if no further page can add a tool that is kept."""
        return not self._server.takes_all and len(self.tools) == len(self._server.named)


def memory(value: Any, enough: int) -> int:
    """Return the number of bytes that the JSON value takes in memory; counting ends above `enough`."""
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
    """Request a page.

    The package's `list_tools` keeps names and schemas of all tools as long as the session lasts. Only servers of a
    modern protocol revision need that: each call repeats a part of the list in its headers.
    """
    params = types.PaginatedRequestParams(cursor=cursor)
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return await session.list_tools(params=params)
    return await session.send_request(types.ListToolsRequest(params=params), types.ListToolsResult)
