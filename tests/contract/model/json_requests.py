"""Requests to a model that calls tools by JSON, and a server that answers so."""

import json
from typing import Any

from roboco.ports.model import Request as ModelRequest
from roboco.ports.model import RequestedCall
from tests.contract.model.model_calls import make_request
from tests.support.servers.model_server import ModelServer, Reply


def make_tool(name: str, **properties: Any) -> dict[str, Any]:
    """Return a tool with these arguments, all of them required."""
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": schema}}


NUMBER = {"type": "integer", "maximum": 1000}
TOOLS = (make_tool("add", a=NUMBER, b=NUMBER), make_tool("note", content={"type": "string"}))
ADD_CALL = {"tool": "add", "args": {"a": 1, "b": 2}}
REQUESTED_ADD = RequestedCall("add", '{"a": 1, "b": 2}')
VALID_ANSWER = {"text": "I add", "calls": [ADD_CALL]}


def make_json_request(text: str = "go", **profile: Any) -> ModelRequest:
    """Return a request to a model that answers with JSON."""
    return make_request(text, *TOOLS, tool_calls="json", **profile)


def script_answers(server: ModelServer, *answers: Any, **options: Any) -> None:
    """Make the server give the nth answer after n reprompts, and the last one from then on."""
    texts = [answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False) for answer in answers]
    server.script(lambda request: Reply(text=texts[min(request.count("assistant"), len(texts) - 1)], **options))


def request_bodies(server: ModelServer) -> list[dict[str, Any]]:
    """Return the bodies of the requests that the server received."""
    return [record.request.body for record in server.requests]
