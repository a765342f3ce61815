"""The client of the package fastmcp."""

import asyncio
import os
from typing import Any

from fastmcp import Client
from rows import HELLO, drive, expect

URL = os.environ["OPENAI_BASE_URL"].replace("/openai/v1", "/mcp")


async def _plain() -> None:
    async with Client(URL) as client:
        result = await client.call_tool("desk", {"prompt": "Hello"})
        expect(result.data.text, HELLO)


async def _approval() -> None:
    async def approve(_message: str, _kind: Any, _params: Any, _context: Any) -> dict[str, Any]:
        return {"approve": True}

    async with Client(URL, elicitation_handler=approve) as client:
        result = await client.call_tool("guarded", {"prompt": "add"})
        expect(result.data.text, "The result is 3.")


drive({"plain": lambda: asyncio.run(_plain()), "approval": lambda: asyncio.run(_approval())})
