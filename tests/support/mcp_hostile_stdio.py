"""Misbehaving MCP servers over stdio: `KIND`."""

import json
import signal
import sys
import time
from typing import Any

MEGABYTE_TEXT = "x" * 1_000_000


def send(message: object) -> None:
    """Print a message as one line."""
    print(message if isinstance(message, str) else json.dumps(message), flush=True)


def tool(name: str, description: str = "", schema: object = None) -> dict[str, Any]:
    """Return a tool as `tools/list` describes it."""
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}}


TOOLS: dict[str, list[dict[str, Any]]] = {
    "huge": [tool("one", MEGABYTE_TEXT), tool("two", "", {"type": "object", "description": MEGABYTE_TEXT})],
    "many": [tool(f"tool{number}") for number in range(10_000)],
}


def list_of(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a page of the list of tools."""
    if kind == "endless-large":
        page = int(request.get("params", {}).get("cursor") or 0)
        return {
            "tools": [tool(f"tool{page}_{number}", MEGABYTE_TEXT) for number in range(9)],
            "nextCursor": str(page + 1),
        }
    listed = {"tools": TOOLS.get(kind, [tool("one")])}
    return listed | {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if kind == "modern" else listed


def result_of(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "server/discover":
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }
        case "tools/list":
            return list_of(kind, request)
        case "ping":
            return {}
        case _:
            return {
                "content": [{"type": "text", "text": f"called {request['params']['name']}"}],
                "resultType": "complete",
            }


def answer(kind: str, request: dict[str, Any]) -> None:
    """Answer the request as this kind of server does."""
    method = request["method"]
    if kind in ("mute", "deaf") and method == "tools/call":
        if kind == "deaf":
            time.sleep(600)
        return
    if kind == "modern" and method == "initialize":
        error = {"code": -32022, "message": "no such version", "data": {"supported": ["2026-07-28"], "requested": "x"}}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return
    if kind == "garbage":
        send("\n".join(f"debug: this is no message {number}" for number in range(20)))
        send({"jsonrpc": "2.0", "id": 999_999, "result": {}})
        send({"hello": "world"})
    while kind in ("flood", "long-line") and method == "tools/call":
        sys.stdout.write("this is no message\n" if kind == "flood" else "x" * 65_536)
    send({"jsonrpc": "2.0", "id": request["id"], "result": result_of(kind, request)})


def main(kind: str) -> None:
    """Answer requests until the input ends."""
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            answer(kind, request)
    while kind == "stubborn":
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
