"""Asking a model that answers with JSON, and a server that does."""

import json
from typing import Any

from roboco.ports.model import Request as ModelRequest
from roboco.ports.model import RequestedCall
from tests.contract.model.model_calls import make_request
from tests.support.servers.model_server import ModelServer, Reply


def make_tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool with these arguments, all of them required."""
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": schema}}


NUMBER = {"type": "integer", "maximum": 1000}
TOOLS = (make_tool("add", a=NUMBER, b=NUMBER), make_tool("note", content={"type": "string"}))
ADD_CALL = {"tool": "add", "args": {"a": 1, "b": 2}}
REQUESTED_ADD = RequestedCall("add", '{"a": 1, "b": 2}')
VALID_ANSWER = {"text": "I add", "calls": [ADD_CALL]}


def make_json_request(text: str = "go", **profile: Any) -> ModelRequest:
    """A request of a model that answers with JSON."""
    return make_request(text, *TOOLS, tool_calls="json", **profile)


def script_answers(server: ModelServer, *answers: Any, **how: Any) -> None:
    """Have the server give these answers, by how often it was asked again; the last one for ever."""
    texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in answers]
    server.script(lambda request: Reply(text=texts[min(request.count("assistant"), len(texts) - 1)], **how))


def request_bodies(server: ModelServer) -> list[dict[str, Any]]:
    """What the server was asked."""
    return [record.request.body for record in server.requests]
