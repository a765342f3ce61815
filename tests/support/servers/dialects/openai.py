"""OpenAI: the strict default of tests."""

import json
from functools import lru_cache

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatRequest, Json
from roboco.lab.servers.dialect import Dialect
from tests.support.servers.dialects import chat_rules
from tests.support.servers.dialects import openai_values as values
from tests.support.servers.dialects.openai_models import check_context, check_parameters, check_unknown
from tests.support.servers.dialects.openai_schemas import check_response_format, check_tool_schemas
from tests.support.servers.dialects.openai_types import check_types

MAX_BODY = 50 * 1024 * 1024


class OpenAIDialect(Dialect):
    """Refuses what OpenAI refuses, with its status, body and words.

    context_window: in tokens of four characters; None takes that of the model.
    """

    def __init__(self, context_window: int | None = None) -> None:
        self.context_window = context_window

    def check(self, request: ChatRequest) -> None:
        body = request.body
        self.check_key(request)
        if int(request.headers.get("content-length", 0)) > MAX_BODY:
            raise Refusal("Request body too large.", status=413)
        self.check_names(body)
        chat_rules.check(body)
        check_types(self.known_part(body))
        values.check_parameters_together(body)
        values.check_ranges(body)
        values.check_message_values(body["messages"])
        if "tools" in body:
            _check_tools(json.dumps(body["tools"]))
        check_response_format(body)
        self.check_model(body)

    def check_key(self, request: ChatRequest) -> None:
        """Raise Refusal if the request has no key."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            message = "You didn't provide an API key. You need to provide your API key in an Authorization header."
            raise Refusal(message, status=401)

    def check_names(self, body: Json) -> None:
        """Raise Refusal for a parameter that the server does not know."""
        check_unknown(body)

    def known_part(self, body: Json) -> Json:
        """Return the part of the body that has OpenAI's types: all of it."""
        return body

    def check_model(self, body: Json) -> None:
        """Raise Refusal for what this model does not accept."""
        check_parameters(body)
        check_context(body, self.context_window)


def _check_tools(tools: str) -> None:
    """Raise Refusal if a name or a schema of the tools is refused."""
    refused = _tools_refusal(tools)
    if refused is not None:
        raise refused.with_traceback(None)


@lru_cache(maxsize=256)
def _tools_refusal(tools: str) -> Refusal | None:
    """Return the refusal, or None. The requests of a conversation have the same tools."""
    try:
        for n, tool in enumerate(json.loads(tools)):
            if "function" in tool:
                values.check_tool_name(f"tools[{n}].function.name", tool["function"]["name"])
        check_tool_schemas(json.loads(tools))
    except Refusal as refused:
        return refused
    return None
