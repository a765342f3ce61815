"""A real MCP server for tests, over stdio, or over streamable HTTP with `--http PORT`.

It reads its secret from the variable SHOP_TOKEN or the header Authorization, and returns only a digest of it.
"""

import argparse
import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import BlobResourceContents, EmbeddedResource, ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("shop", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search(query: str, limit: int = 3) -> dict[str, Any]:
    """Find articles."""
    return {"query": query, "found": [f"article {number}" for number in range(limit)]}


@server.tool(annotations=ToolAnnotations(idempotent_hint=True), structured_output=False)
def reserve(article: str) -> str:
    """Reserve an article."""
    return f"reserved {article}"


@server.tool(structured_output=False)
def buy(article: str, ctx: Context) -> str:
    """Buy an article."""
    meta = ctx.request_context.meta or {}
    return f"bought {article} with key {meta.get('roboco/idempotency-key')}"


@server.tool(structured_output=False)
def fail(text: str) -> str:
    """Fail."""
    raise ToolError(text)


@server.tool(structured_output=False)
def leak(ctx: Context) -> str:
    """Fail with the secret in the message."""
    raise ToolError(f"refused {_secret(ctx)}")


@server.tool(structured_output=False)
def who(ctx: Context) -> str:
    """Return a digest of the secret, and the names of the environment's variables."""
    return f"{hashlib.sha256(_secret(ctx).encode()).hexdigest()} {' '.join(sorted(os.environ))}"


@server.tool(structured_output=False)
async def slow(seconds: float, started: str = "") -> str:
    """Return after some seconds."""
    if started:
        Path(started).write_text(str(os.getpid()))
    await anyio.sleep(seconds)
    return "done"


@server.tool(structured_output=False)
def process() -> str:
    """Return the id of the server's process."""
    return str(os.getpid())


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Return a text and a picture."""
    return ["a dot", Image(data=b"\x89PNG dot", format="png")]


@server.tool(structured_output=False)
def photo() -> list[Any]:
    """Return a valid picture twice, with a sound and a file."""
    pixel = Image(data=PIXEL, format="png")
    blob = BlobResourceContents(uri="shop://menu", mime_type="text/csv", blob=base64.b64encode(b"tea,3\n").decode())
    sound = Audio(data=b"OggS\0\2", format="ogg")
    return ["a dot", pixel, pixel, sound, EmbeddedResource(type="resource", resource=blob)]


@server.tool(structured_output=False)
def old() -> str:
    """Return a text. Tests remove this tool."""
    return "still here"


@server.tool(structured_output=False)
async def retire(name: str, ctx: Context, notify: bool = False) -> str:
    """Remove a tool."""
    server.remove_tool(name)
    if notify:
        await ctx.session.send_tool_list_changed()
    return "retired"


def _secret(ctx: Context) -> str:
    headers = ctx.headers
    return headers.get("authorization", "") if headers else os.environ.get("SHOP_TOKEN", "")


def main() -> None:
    """Serve until the input ends, or until killed."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--http", type=int)
    chosen = arguments.parse_args()
    if chosen.http is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=chosen.http)


if __name__ == "__main__":
    main()
