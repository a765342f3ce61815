"""Answers with a type: by the server's response format, or by a tool that the model must call.

    no tools, or OpenAI's server ─► response format, and the schema in the prompt
    any other, or the format was refused ─► the tool `final_answer`, among the agent's own; a call is required

Either way the reply has the answer as its text. Calls of the agent's own tools come first: an answer beside them is
dropped, because the model gives another one when it has their results.
"""

import json
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from roboco.domain.prompt.coordinator_tools import function_schema
from roboco.domain.prompt.typed_answer import answer_schema
from roboco.model.allowlist import base_url_of
from roboco.model.strict_schema import is_strict, strict_schema
from roboco.ports.model import Reply, Request

ANSWER_TOOL: Final = "final_answer"
_HOSTS_WITH_BOTH: Final = ("api.openai.com", ".openai.azure.com")
"""Servers whose models call tools although a response format is set. At others the format forbids calls."""


def answers_by_tool(request: Request, refused: set[str]) -> bool:
    """Return True if the answer is asked for as a call. `refused` are the parameters that the server does not take."""
    profile = request.profile
    if profile.provider not in ("openai", "groq", "mistral") or "response_format" in refused.union(profile.omit):
        return True
    host = urlsplit(base_url_of(profile) or "https://api.openai.com").hostname or ""
    takes_both = profile.tool_calls == "native" and host.endswith(_HOSTS_WITH_BOTH)
    return bool(request.tools) and not takes_both


def with_answer_tool(request: Request) -> Request:
    """Return the request with the tool `final_answer`, in which one of the tools must be called."""
    schema = answer_schema(request.output or {})
    tool = function_schema(_tool_name(request), "Give the final answer, when no other tool is needed.", schema)
    return replace(request, tools=(*request.tools, tool), tool_choice="required", output=None)


def with_format(request: Request) -> Request:
    """Return the request with the answer's schema, as the response format and in the prompt."""
    schema = answer_schema(request.output or {})
    narrowed = strict_schema(schema)
    strict = is_strict(narrowed)
    described = {"name": "answer", "schema": narrowed if strict else schema, "strict": strict}
    system, *others = request.messages
    shown = json.dumps(schema, ensure_ascii=False)
    instructions = f"{system['content']}\n\nWhen you answer, answer with JSON alone, which fits this schema:\n{shown}"
    form = {"type": "json_schema", "json_schema": described}
    return replace(request, messages=(system | {"content": instructions}, *others), response_format=form, output=None)


def without_answer_call(request: Request, reply: Reply, text: str) -> tuple[Reply, str]:
    """Return the reply without a call of the tool, and its text: the answer if the reply has one and no other call."""
    name = _tool_name(request)
    answers = [call.arguments for call in reply.calls if call.name == name]
    others = tuple(call for call in reply.calls if call.name != name)
    if others or not answers:
        return replace(reply, calls=others), text
    ended = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
    return replace(reply, calls=(), finish_reason=ended), answers[-1] or "{}"


def _tool_name(request: Request) -> str:
    """Return a name that no tool of the agent has."""
    name, taken = ANSWER_TOOL, {tool["function"]["name"] for tool in request.tools}
    while name in taken:
        name += "_"
    return name
