"""The types of OpenAI's parameters, from the openai package: wrong types, missing names, values of no enum."""

from collections.abc import Iterable
from typing import Any, Final

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter, ValidationError

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json

_REQUESTS: Final[dict[bool, TypeAdapter[Any]]] = {
    True: TypeAdapter(CompletionCreateParamsStreaming),
    False: TypeAdapter(CompletionCreateParamsNonStreaming),
}


def known_part(body: Json) -> Json:
    """Return the body without what OpenAI does not know. Raise Refusal if the rest has a wrong type or value."""
    try:
        found: Json = _plain(_REQUESTS[bool(body.get("stream"))].validate_python(body, strict=True))
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(map(str, first["loc"]))
        raise Refusal(f"Invalid value for '{param}': {first['msg']}.", param=param, code="invalid_value") from None
    return found


def _plain(value: Any) -> Any:
    """Return the value with lists in place of pydantic's iterators, which check their items when they are read."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
