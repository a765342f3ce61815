"""OpenAI: the strict default of tests."""

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatRequest, Json, content_text
from roboco.lab.servers.dialect import Dialect
from tests.support.servers.dialects.openai_schemas import check_response_format, check_tool_schemas
from tests.support.servers.dialects.openai_types import known_part

CHARS_PER_TOKEN: Final = 4
CONTEXT_TOKENS: Final = 128_000
MAX_TOOLS: Final = 128
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_CALL_ID: Final = 40
"""Azure and gateways before OpenAI still refuse longer ones."""
_REASONING: Final = re.compile(r"o[1-9]|gpt-5")
_MAX_OUTPUT: Final = 16_384
"""Output tokens of a model that does not reason."""
_ONLY_WITH: Final = {"tool_choice": "tools", "parallel_tool_calls": "tools", "stream_options": "stream"}
_SAMPLING: Final = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
"""The only values that a reasoning model accepts."""


class OpenAIDialect(Dialect):
    """Refuses what OpenAI refuses, with its status, body and words."""

    def check(self, request: ChatRequest) -> None:
        body = request.body
        self.check_key(request)
        super().check(request)
        known = known_part(body)
        self.check_unknown(list(_unknown(body, known)), body)
        for name, needed in _ONLY_WITH.items():
            if name in body and not body.get(needed):
                raise Refusal(f"Invalid value for '{name}': it is only allowed with '{needed}'.", param=name)
        _check_tools(known)
        for message in known["messages"]:
            _check_message(message)
        check_response_format(known)
        self.check_model(body)

    def check_key(self, request: ChatRequest) -> None:
        """Raise Refusal if the request has no key."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            message = "You didn't provide an API key. You need to provide your API key in an Authorization header."
            raise Refusal(message, status=401)

    def check_unknown(self, unknown: list[tuple[str | int, ...]], body: Json) -> None:
        """Raise Refusal for the paths of parameters, and of fields of messages, that OpenAI does not know."""
        for path in unknown:
            name = ".".join(map(str, path))
            raise Refusal(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")

    def check_model(self, body: Json) -> None:
        """Raise Refusal for what this model does not accept."""
        if _REASONING.match(body["model"].rpartition("/")[2]):
            _check_reasoning(body)
        elif (given := body.get("max_tokens") or 0) > _MAX_OUTPUT:
            message = (
                f"max_tokens is too large: {given}. This model supports at most {_MAX_OUTPUT} completion tokens, "
                f"whereas you provided {given}."
            )
            raise Refusal(message, param="max_tokens", code="invalid_value")
        if (tokens := tokens_of(body)) > CONTEXT_TOKENS:
            message = (
                f"This model's maximum context length is {CONTEXT_TOKENS} tokens. However, your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages."
            )
            raise Refusal(message, param="messages", code="context_length_exceeded")


def tokens_of(body: Json) -> int:
    """Return the tokens of the messages."""
    return sum(len(content_text(message)) for message in body["messages"]) // CHARS_PER_TOKEN


def _unknown(body: Json, known: Json) -> Iterator[tuple[str | int, ...]]:
    yield from ((name,) for name in body if name not in known)
    for n, (message, found) in enumerate(zip(body["messages"], known["messages"], strict=True)):
        yield from (("messages", n, name) for name in message if name not in found)


def _check_tools(body: Json) -> None:
    tools = body.get("tools")
    if tools is None:
        return
    if not 0 < len(tools) <= MAX_TOOLS:
        raise Refusal(f"Invalid 'tools': an array with length {len(tools)}.", param="tools")
    for tool in tools:
        _check_tool_name(tool["function"]["name"])
    check_tool_schemas(tools)


def _check_message(message: Json) -> None:
    for call in message.get("tool_calls") or ():
        _check_tool_name(call["function"]["name"])
        if len(call["id"]) > _MAX_CALL_ID:
            raise Refusal(f"Invalid id: string too long, with maximum length {_MAX_CALL_ID}.", param="messages")
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        url = (part.get("image_url") or {}).get("url", "https:")
        if not re.match(r"https?:|data:image/(png|jpeg|gif|webp);base64,", url):
            raise Refusal("Invalid image_url.url: expected a base64-encoded data URL.", param="messages")


def _check_tool_name(name: str) -> None:
    if not _TOOL_NAME.fullmatch(name):
        raise Refusal(f"Invalid name {name!r}: it does not match the pattern '{_TOOL_NAME.pattern}'.", param="tools")


def _check_reasoning(body: Json) -> None:
    if body.get("max_tokens") is not None:
        _unsupported("max_tokens", " Use 'max_completion_tokens' instead.")
    for name, only in _SAMPLING.items():
        if body.get(name, only) != only:
            message = (
                f"Unsupported value: '{name}' does not support {body[name]} with this model. "
                f"Only the default ({only}) value is supported."
            )
            raise Refusal(message, param=name, code="unsupported_value")
    if body.get("stop"):
        _unsupported("stop")


def _unsupported(name: str, remedy: str = "") -> NoReturn:
    message = f"Unsupported parameter: '{name}' is not supported with this model.{remedy}"
    raise Refusal(message, param=name, code="unsupported_parameter")
