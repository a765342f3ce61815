"""OpenAI's rules for single values: ranges of numbers, lengths and patterns of strings, images."""

import re
from typing import Any

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json
from tests.support.servers.dialects.chat_rules import check_array, wrong_type

MAX_CONTENT = 10 * 1024 * 1024
MAX_CALL_ID = 40
"""Azure and gateways before OpenAI still refuse longer ones."""
MAX_TOOL_NAME = 64
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[^\s<|\\/>]+")
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "n": (1, 128),
    "top_logprobs": (0, 20),
    "max_tokens": (1, None),
    "max_completion_tokens": (1, None),
}
_DECIMALS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_ONLY_WITH = {"tool_choice": "tools", "parallel_tool_calls": "tools"}


def check_parameters_together(body: Json) -> None:
    """Raise Refusal for a parameter that another one must accompany."""
    for name, needed in _ONLY_WITH.items():
        if name in body and needed not in body:
            message = f"Invalid value for '{name}': '{name}' is only allowed when '{needed}' are specified."
            raise Refusal(message, param=name)
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise Refusal("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs")
    choice: Any = body.get("tool_choice")
    if isinstance(choice, dict) and "function" in choice:
        name = choice["function"]["name"]
        if name not in [tool.get("function", {}).get("name") for tool in body["tools"]]:
            raise Refusal(f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice")


def check_ranges(body: Json) -> None:
    """Raise Refusal for a number that is out of range, and for too many stop sequences."""
    for name, (least, most) in _RANGES.items():
        if body.get(name) is not None:
            _check_range(name, body[name], least, most)
    if isinstance(body.get("stop"), list):
        check_array("stop", body["stop"], 1, 4)


def _check_range(name: str, value: float, least: float, most: float | None) -> None:
    kind = "decimal" if name in _DECIMALS else "integer"
    if value < least:
        message = f"Invalid '{name}': {kind} below minimum value. Expected a value >= {least}, but got {value} instead."
        raise Refusal(message, param=name, code=f"{kind}_below_min_value")
    if most is not None and value > most:
        message = f"Invalid '{name}': {kind} above maximum value. Expected a value <= {most}, but got {value} instead."
        raise Refusal(message, param=name, code=f"{kind}_above_max_value")


def check_string(param: str, value: Any, maximum: int, pattern: re.Pattern[str] | None = None) -> None:
    """Raise Refusal if the value is no string of this length and pattern."""
    if not isinstance(value, str):
        raise wrong_type(param, "a string", value)
    if len(value) > maximum:
        message = (
            f"Invalid '{param}': string too long. Expected a string with maximum length {maximum}, "
            f"but got a string with length {len(value)} instead."
        )
        raise Refusal(message, param=param, code="string_above_max_length")
    if pattern is not None and not pattern.fullmatch(value):
        message = (
            f"Invalid '{param}': string does not match pattern. "
            f"Expected a string that matches the pattern '^{pattern.pattern}$'."
        )
        raise Refusal(message, param=param, code="invalid_value")


def check_tool_name(param: str, name: Any) -> None:
    """Raise Refusal if a tool cannot have this name."""
    check_string(param, name, MAX_TOOL_NAME, TOOL_NAME)


def check_message_values(messages: list[Json]) -> None:
    """Raise Refusal for the content, the names or the ids of a message."""
    for n, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, str):
            check_string(f"messages[{n}].content", content, MAX_CONTENT)
        elif content is not None:
            check_array(f"messages[{n}].content", content, 1)
            _check_images(n, content)
        if "name" in message:
            check_string(f"messages[{n}].name", message["name"], 64, _NAME)
        for m, call in enumerate(message.get("tool_calls") or ()):
            where = f"messages[{n}].tool_calls[{m}]"
            check_string(f"{where}.id", call["id"], MAX_CALL_ID)
            check_tool_name(f"{where}.function.name", call["function"]["name"])


def _check_images(n: int, content: list[Json]) -> None:
    for m, part in enumerate(content):
        where = f"messages[{n}].content[{m}].image_url.url"
        url = (part.get("image_url") or {}).get("url", "https:")
        if not re.match(r"https?:|data:image/(png|jpeg|gif|webp);base64,", url):
            message = (
                f"Invalid '{where}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
                f"'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without the 'data:' prefix."
            )
            raise Refusal(message, param=where, code="invalid_value")
