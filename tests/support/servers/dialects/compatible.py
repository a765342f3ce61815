"""Servers that speak OpenAI's protocol, with parameters, fields and models of their own."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from roboco.lab.servers.chat_protocol import ChatRequest, Json
from tests.support.servers.dialects.openai import OpenAIDialect
from tests.support.servers.dialects.openai_models import check_context
from tests.support.servers.dialects.openai_types import message_fields, unknown_parameters

CALL_FIELDS = frozenset({"id", "type", "function"})


class CompatibleDialect(OpenAIDialect):
    """Ignores unknown parameters and fields, as most servers do, and knows no limits of OpenAI's models."""

    def check_names(self, body: Json) -> None:
        """Refuse no unknown parameter."""

    def check_model(self, body: Json) -> None:
        if self.context_window is not None:
            check_context(body, self.context_window)

    def known_part(self, body: Json) -> Json:
        """Return the body without all that OpenAI does not know."""
        unknown = unknown_parameters(body)
        known = {name: value for name, value in body.items() if name not in unknown}
        return known | {"messages": [_known_message(message) for message in body["messages"]]}


def _known_message(message: Json) -> Json:
    names = message_fields(message["role"])
    known = {name: value for name, value in message.items() if name in names}
    if known.get("tool_calls"):
        known["tool_calls"] = [
            {name: value for name, value in call.items() if name in CALL_FIELDS} for call in known["tool_calls"]
        ]
    return known


def unknown_fields(body: Json, parameters: frozenset[str]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path and the value of each parameter that is not listed, and of each unknown field of a message."""
    for name, value in body.items():
        if name not in parameters:
            yield (name,), value
    for n, message in enumerate(body.get("messages") or ()):
        role = message.get("role")
        for name, value in message.items():
            if name not in message_fields(role):
                yield ("messages", n, role, name), value


def call_messages(request: ChatRequest) -> Iterator[tuple[int, Json]]:
    """Yield the assistant messages with calls after the last user message, with their places."""
    last = max((n for n, message in enumerate(request.messages) if message["role"] == "user"), default=0)
    for n, message in enumerate(request.messages):
        if n > last and message.get("tool_calls"):
            yield n, message


def signature(*parts: str) -> str:
    """Return a signature that the server recognizes when it is returned."""
    return base64.b64encode(hashlib.sha256("/".join(parts).encode()).digest()).decode()
