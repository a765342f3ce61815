"""Groq: usage in `x_groq`, unknown fields refused, and calls that do not fit their tools as errors of the model."""

import json
from typing import Any

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json, encoded
from roboco.lab.servers.dialect import DONE, event
from tests.support.servers.dialects.compatible import CompatibleDialect, unknown_fields
from tests.support.servers.dialects.openai_types import unknown_parameters

_PARAMETERS = frozenset({"include_reasoning", "reasoning_format", "search_settings", "compound_custom", "documents"})


class Groq(CompatibleDialect):
    """A call that does not fit its tool ends the stream with `tool_use_failed`; without a stream it is a 400."""

    reasoning_field = "reasoning"

    def check_names(self, body: Json) -> None:
        known = frozenset(body) - frozenset(unknown_parameters(body)) | _PARAMETERS
        for path, _ in unknown_fields(body, known):
            problem = f"property '{path[-1]}' is unsupported"
            if len(path) > 1:
                place = f"'messages.{path[1]}'"
                problem = f"{place} : for 'role:{path[2]}' the following must be satisfied[({place} : {problem})]"
            raise Refusal(problem)

    def error_body(self, error: Refusal) -> object:
        body = {"message": error.message, "type": "invalid_request_error"} | error.more
        return {"error": body if error.code is None else body | {"code": error.code}}

    def failure(self, request: ChatRequest, error: Refusal) -> bytes:
        body: Any = self.error_body(error)
        return b"event: error\ndata: %s\n\n" % encoded({"error": body["error"] | {"status_code": error.status}})

    def reply(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        tools = {tool["function"]["name"]: tool["function"] for tool in request.body.get("tools") or ()}
        for name, given in reply.tool_calls:
            problem = _problem(tools, name, given)
            if problem:
                failed = json.dumps({"name": name, "arguments": given})
                refusal = Refusal(problem, code="tool_use_failed", failed_generation=failed)
                if request.stream:
                    return ChatReply(text=reply.text, reasoning=reply.reasoning, failure=refusal)
                raise refusal
        return reply

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        choice = {"index": 0, "delta": {}, "finish_reason": self.finish_reason(reply)}
        chunk = self.envelope(request, "chat.completion.chunk", [choice], None)
        del chunk["usage"]
        return event(chunk | {"x_groq": {"id": "req_1", "usage": self.usage(request, reply)}}) + DONE


def _problem(tools: dict[str, Json], name: str, given: Any) -> str:
    """Return why the call does not fit its tool, or ""."""
    start = "Tool call validation failed: tool call validation failed: "
    if name not in tools:
        return f"{start}attempted to call tool '{name}' which was not in request.tools"
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
    schema = tools[name].get("parameters") or {}
    missing = [f"'{one}'" for one in schema.get("required", ()) if one not in arguments]
    errors = [f"missing properties: {', '.join(missing)}"] if missing else []
    if schema.get("additionalProperties") is False:
        errors += [f"additionalProperties '{one}' not allowed" for one in arguments if one not in schema["properties"]]
    joined = ", ".join(errors)
    return f"{start}parameters for tool {name} did not match schema: errors: [{joined}]" if errors else ""
