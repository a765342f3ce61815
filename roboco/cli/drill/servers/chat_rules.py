"""The rules by which real providers refuse chat-completions requests."""

import json
import re
from collections.abc import Iterator
from typing import Any

from roboco.cli.drill.servers.chat_protocol import Json

ROLES = ("system", "developer", "user", "assistant", "tool")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations(body: Json) -> Iterator[str]:
    """Yield each reason for which providers refuse this request."""
    if not isinstance(body.get("model"), str):
        yield "you must provide a model parameter"
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "'stream_options' is only allowed when 'stream' is enabled"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "'messages' must be an array with at least one message"
    elif not all(isinstance(message, dict) for message in messages):
        yield "'messages' must be an array of objects"
    else:
        yield from _message_violations(messages)
    if "tools" in body:
        yield from _tool_violations(body["tools"])


def _tool_violations(tools: Any) -> Iterator[str]:
    if not isinstance(tools, list) or not tools:
        yield "'tools' must be an array with at least one tool"
        return
    for n, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            yield f"tools[{n}] is named {name!r}, which does not match {TOOL_NAME.pattern}"


def _message_violations(messages: list[Json]) -> Iterator[str]:
    waiting: list[str] = []
    for n, message in enumerate(messages):
        role, call_id = message.get("role"), message.get("tool_call_id")
        if role == "tool":
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                yield f"messages[{n}] answers {call_id!r}, which is no open call of the message before"
            continue
        yield from _unanswered(waiting, f"before messages[{n}]")
        yield from _content_violations(n, message)
        made = message.get("tool_calls") if role == "assistant" else None
        waiting = list(dict.fromkeys(call.get("id") for call in made or ()))
    yield from _unanswered(waiting, "at the end of 'messages'")


def _unanswered(waiting: list[str], where: str) -> Iterator[str]:
    if waiting:
        yield f"an assistant message with 'tool_calls' lacks tool messages for {waiting} {where}"


def _content_violations(n: int, message: Json) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        yield f"messages[{n}] has role {role!r}, expected one of {', '.join(ROLES)}"
    elif role == "assistant" and message.get("tool_calls") is not None:
        yield from _call_violations(n, message["tool_calls"])
    elif not isinstance(content, str | list):
        yield f"messages[{n}] has content {content!r}, expected a string or an array of parts"


def _call_violations(n: int, made: list[Json]) -> Iterator[str]:
    ids = [call.get("id") for call in made]
    if not made:
        yield f"messages[{n}].tool_calls is empty, leave it out"
    if len(set(ids)) < len(ids):
        yield f"messages[{n}].tool_calls has an id twice in {ids}"
    for call in made:
        arguments = call.get("function", {}).get("arguments")
        if not _is_object(arguments):
            yield f"messages[{n}].tool_calls has arguments {arguments!r}, expected a string of a JSON object"


def _is_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False
