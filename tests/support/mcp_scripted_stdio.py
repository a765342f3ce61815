"""An MCP server over stdio that answers as its argument says: JSON with the fields of `SCRIPT`."""

import json
import sys
import time
from typing import Any

SCRIPT: dict[str, Any] = {
    "tools": [],
    "cursor": None,  # of the next page, which is the same page
    "hello": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"}},
    "refused_revisions": "none",  # the beginning of the revisions of the protocol that are an error
    "results": {},  # by the name of the tool: a result, or an object with `error` or `raw` (a text)
    "before": "",  # a text before each message, without a line break
    "lines": 0,  # lines of a log before each result of a call
    "requests": [],  # requests to the client during a call, of which each must be answered
    "progress": 0,  # how often a call reports progress
    "pause": 0.0,  # seconds before each of these reports, and before the result
}


def send(script: dict[str, Any], message: dict[str, Any] | str) -> None:
    """Print a message."""
    text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
    sys.stdout.buffer.write(script["before"].encode("utf-8", "surrogatepass") + text.encode() + b"\n")
    sys.stdout.buffer.flush()


def call(script: dict[str, Any], request: dict[str, Any]) -> None:
    """Answer a call."""
    params = request["params"]
    for number in range(script["lines"]):
        print(f"log line {number}", flush=True)
    for number, asked in enumerate(script["requests"]):
        send(script, {"id": f"q{number}", **asked})
        assert json.loads(sys.stdin.readline())["id"] == f"q{number}"
    for number in range(script["progress"]):
        time.sleep(script["pause"])
        token = {"progressToken": params["_meta"]["progressToken"], "progress": number}
        send(script, {"method": "notifications/progress", "params": token})
    time.sleep(script["pause"])
    result = script["results"].get(params["name"], {"content": [{"type": "text", "text": f"called {params['name']}"}]})
    if "raw" in result:
        send(script, result["raw"].replace("ID", str(request["id"])))
    elif "error" in result:
        send(script, {"id": request["id"], "error": result["error"]})
    else:
        send(script, {"id": request["id"], "result": result})


def main(script: dict[str, Any]) -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        match request["method"]:
            case "initialize" if request["params"]["protocolVersion"].startswith(script["refused_revisions"]):
                send(script, {"id": request["id"], "error": {"code": -32602, "message": "Unsupported version"}})
                continue
            case "initialize":
                result: dict[str, Any] = script["hello"]
            case "tools/list":
                result = {"tools": script["tools"], "nextCursor": script["cursor"]}
            case "tools/call":
                call(script, request)
                continue
            case _:
                result = {}
        send(script, {"id": request["id"], "result": result})


if __name__ == "__main__":
    main(SCRIPT | json.loads(sys.argv[1]))
