"""messages: chat completions as messages of the library, and back to what a provider wants with the next request.

system              ─► SystemPromptPart, at the beginning
user                ─► UserPromptPart: text and files
tool                ─► ToolReturnPart
assistant           ─► ModelResponse: text and calls
assistant, provider ─► the ModelResponse that the provider has sent, with its signatures, ids and own tools' results
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from roboco.domain.prompt.chat import ChatMessage, data_of
from roboco.model.provider_state import own_call_ids

RESPONSE = "response"
"""The field of the provider's state that holds the ModelResponse."""
_RESPONSE_FIELDS = ("kind", "parts", "provider_name", "canonical_system", "provider_details", "provider_response_id")
_SYSTEM_ROLES = ("system", "developer")
_Answered = dict[str, tuple[str, str]]
"""The provider's id and the tool of each call, by Roboco's id."""


def library_messages(messages: Sequence[ChatMessage]) -> list[ModelMessage]:
    """Return the messages. Neighbouring requests are joined, since providers want user and assistant to alternate."""
    converted: list[ModelMessage] = []
    answered: _Answered = {}
    for message in messages:
        if message["role"] == "assistant":
            converted.append(_response(message, answered))
            continue
        last = converted[-1] if converted else None
        opening = last is None or (
            len(converted) == 1 and all(isinstance(part, SystemPromptPart) for part in last.parts)
        )
        part = _request_part(message, answered, opening)
        if isinstance(last, ModelRequest):
            converted[-1] = replace(last, parts=[*last.parts, part])
        else:
            converted.append(ModelRequest(parts=[part]))
    return converted


def tool_definition(tool: Mapping[str, Any]) -> ToolDefinition:
    """Return the definition of a tool in the format of chat completions."""
    function = tool["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=function.get("parameters"),
        strict=function.get("strict"),
    )


def state_of(response: ModelResponse) -> dict[str, Any]:
    """Return what the provider wants back with the response, as JSON, or {} if text and calls are all there is.

    A result of the provider's own tool without its call is left out: the provider would refuse it.
    """
    if all(_is_plain(part) for part in response.parts):
        return {}
    [dumped] = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    kept = {name: dumped[name] for name in _RESPONSE_FIELDS if dumped.get(name) is not None}
    ran = {part.tool_call_id for part in response.parts if isinstance(part, NativeToolCallPart)}
    kept["parts"] = [
        {name: value for name, value in dumped_part.items() if value is not None and name != "timestamp"}
        for part, dumped_part in zip(response.parts, kept["parts"], strict=True)
        if not isinstance(part, NativeToolReturnPart) or part.tool_call_id in ran
    ]
    return {RESPONSE: kept}


def _is_plain(part: object) -> bool:
    return isinstance(part, TextPart | ToolCallPart) and not (part.id or part.provider_details)


def _request_part(message: ChatMessage, answered: _Answered, opening: bool) -> ModelRequestPart:
    content = message.get("content") or ""
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        own_id, tool = answered.get(call_id, (call_id, "unknown"))
        return ToolReturnPart(tool_name=tool, content=_text(content), tool_call_id=own_id)
    if message["role"] in _SYSTEM_ROLES and opening:
        return SystemPromptPart(content=_text(content))
    return UserPromptPart(content=content if isinstance(content, str) else [*map(_user_item, content)])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _user_item(part: Mapping[str, Any]) -> UserContent:
    """Return a text, or a file. Only data is a file: the library would download any other address."""
    data = data_of(part)
    if data is None:
        return str(part.get("text", ""))
    if part["type"] == "input_audio":
        kind = "audio/mpeg" if part["input_audio"].get("format") == "mp3" else "audio/wav"
        data = f"data:{kind};base64,{data}"
    try:
        return BinaryContent.from_data_uri(data)
    except ValueError:
        return f"(a file that is not attached: {data[:200]})"


def _response(message: ChatMessage, answered: _Answered) -> ModelResponse:
    """Return the response, and note the provider's ids of its calls."""
    state = message.get("provider") or {}
    calls = message.get("tool_calls") or []
    response = _restored(message, state) or _plain_response(message, state)
    own = [part for part in response.parts if isinstance(part, ToolCallPart)]
    answered |= {call["id"]: (part.tool_call_id, part.tool_name) for call, part in zip(calls, own, strict=True)}
    return response


def _plain_response(message: ChatMessage, state: Mapping[str, Any]) -> ModelResponse:
    calls = message.get("tool_calls") or []
    ids = own_call_ids(calls, state.get("calls")) or [call["id"] for call in calls]
    text = _text(message.get("content") or "")
    return ModelResponse(
        parts=[
            *([TextPart(text)] if text or not calls else []),
            *(
                ToolCallPart(call["function"]["name"], call["function"]["arguments"], tool_call_id=call_id)
                for call, call_id in zip(calls, ids, strict=True)
            ),
        ]
    )


def _restored(message: ChatMessage, state: Mapping[str, Any]) -> ModelResponse | None:
    """Return the response that the provider has sent, or None if it is not kept or says anything but the message.

    Roboco's message decides: a person may have changed it, and a state may come from an imported history.
    """
    further = state.get("message")
    kept = further.get(RESPONSE) if isinstance(further, Mapping) else None
    if kept is None:
        return None
    try:
        [response] = ModelMessagesTypeAdapter.validate_python([kept])
    except (ValidationError, ValueError, RecursionError):
        return None
    return response if isinstance(response, ModelResponse) and _says(response, message) else None


def _says(response: ModelResponse, message: ChatMessage) -> bool:
    """Return True if the response has the text and the calls of the message. Spaces do not count."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    made = [(part.tool_name, part.args_as_json_str()) for part in response.parts if isinstance(part, ToolCallPart)]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    wanted = [(function["name"], function["arguments"]) for function in calls]
    return text.split() == _text(message.get("content") or "").split() and _parsed(made) == _parsed(wanted)


def _parsed(calls: list[tuple[str, str]]) -> list[tuple[str, Any]] | None:
    try:
        return [(name, json.loads(arguments or "{}")) for name, arguments in calls]
    except (ValueError, RecursionError):
        return None
