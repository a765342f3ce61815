"""The rules by which all providers refuse chat-completions requests, in the words of OpenAI."""

import json
from typing import Any, Final

from roboco.lab.servers.chat_protocol import ChatRefusal, Json

ROLES: Final = ("system", "assistant", "user", "function", "tool", "developer")
MAX_TOOLS: Final = 128
_BEFORE_CALLS: Final = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
)
_UNANSWERED: Final = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {}"
)
_TYPES: Final = {
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    dict: "an object",
    list: "an array",
    type(None): "null",
}


def check(body: Json) -> None:
    """Raise ChatRefusal for the first reason for which providers refuse this request."""
    if not body:
        raise ChatRefusal("We could not parse the JSON body of your request.")
    if not isinstance(body.get("model"), str):
        raise ChatRefusal("you must provide a model parameter")
    if body.get("stream_options") is not None and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise ChatRefusal(message, param="stream_options")
    if "messages" not in body:
        raise ChatRefusal(
            "Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter"
        )
    check_array("messages", body["messages"], 1)
    _check_messages(body["messages"])
    if "tools" in body:
        check_array("tools", body["tools"], 1, MAX_TOOLS)


def check_array(param: str, value: Any, minimum: int, maximum: int | None = None) -> None:
    """Raise ChatRefusal if the value is no array of this length."""
    if not isinstance(value, list):
        raise wrong_type(param, "an array of objects", value)
    if len(value) < minimum:
        expected = f"Expected an array with minimum length {minimum}, but got an empty array instead."
        raise ChatRefusal(f"Invalid '{param}': empty array. {expected}", param=param, code="empty_array")
    if maximum is not None and len(value) > maximum:
        expected = (
            f"Expected an array with maximum length {maximum}, but got an array with length {len(value)} instead."
        )
        raise ChatRefusal(f"Invalid '{param}': array too long. {expected}", param=param, code="array_above_max_length")


def wrong_type(param: str, expected: str, value: Any) -> ChatRefusal:
    """Return the refusal of a value of another type than the expected one."""
    message = f"Invalid type for '{param}': expected {expected}, but got {_TYPES[type(value)]} instead."
    return ChatRefusal(message, param=param, code="invalid_type")


def _check_messages(messages: list[Any]) -> None:
    waiting: list[str] = []
    for n, message in enumerate(messages):
        if not isinstance(message, dict):
            raise wrong_type(f"messages[{n}]", "an object", message)
        role, call_id = message.get("role"), message.get("tool_call_id")
        if role == "tool":
            if call_id not in waiting:
                raise ChatRefusal(_BEFORE_CALLS, param=f"messages.[{n}].role")
            waiting.remove(call_id)
            _check_content(n, message)
            continue
        _check_answered(waiting, n)
        _check_role(n, role)
        waiting = _check_calls(n, message) if role == "assistant" else []
        if not waiting:
            _check_content(n, message)
    _check_answered(waiting, len(messages) - 1)


def _check_answered(waiting: list[str], n: int) -> None:
    if waiting:
        raise ChatRefusal(_UNANSWERED.format(", ".join(map(str, waiting))), param=f"messages.[{n}].role")


def _check_role(n: int, role: Any) -> None:
    if role not in ROLES:
        *some, last = (f"'{role}'" for role in ROLES)
        message = f"Invalid value: '{role}'. Supported values are: {', '.join(some)}, and {last}."
        raise ChatRefusal(message, param=f"messages[{n}].role", code="invalid_value")


def _check_content(n: int, message: Json) -> None:
    content = message.get("content")
    if not isinstance(content, str | list):
        problem = f"Invalid value for 'content': expected a string, got {_TYPES[type(content)]}."
        raise ChatRefusal(problem, param=f"messages.[{n}].content")


def _check_calls(n: int, message: Json) -> list[str]:
    """Return the ids of the message's calls."""
    if message.get("tool_calls") is None:
        return []
    made, param = message["tool_calls"], f"messages[{n}].tool_calls"
    check_array(param, made, 1, MAX_TOOLS)
    ids = [call.get("id") for call in made]
    for m, call in enumerate(made):
        if ids.count(ids[m]) > 1:
            raise ChatRefusal(f"Duplicate value for 'tool_call_id' of '{ids[m]}' in message[{n}]", param=param)
        if not _is_object(call.get("function", {}).get("arguments")):
            where = f"{param}[{m}].function.arguments"
            raise ChatRefusal(
                f"Invalid '{where}': expected a string of a JSON object.", param=where, code="invalid_value"
            )
    return ids


def _is_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False
