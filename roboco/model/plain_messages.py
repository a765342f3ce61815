"""Plain messages: a conversation without the protocol of native tool calls, for models that do not know it.

After one system message, user and assistant alternate strictly, beginning with the user: many chat templates reject
anything else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.prompt.chat import ChatMessage

MAX_ARGUMENT_CHARS = 300
"""Maximum number of characters of a call's arguments that are shown with its result."""
_SYSTEM_ROLES = ("system", "developer")


@dataclass
class _Turn:
    role: str
    contents: list[Any] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)


def plain_messages(messages: tuple[ChatMessage, ...], instruction: str = "") -> tuple[ChatMessage, ...]:
    """Return the messages as plain ones, with the instruction at the end of the system message.

    With an instruction, each assistant message is the JSON object that the instruction requests. Without one, calls are
    shown only with their results, since small models imitate the beginning of a conversation.
    """
    turns = [_Turn("system")]
    for turn in _iter_turns(messages, bool(instruction)):
        role = "assistant" if turn.role == "assistant" else "user"
        role = "system" if turn.role in _SYSTEM_ROLES and len(turns) == 1 else role
        if role == "assistant" and len(turns) == 1:
            turns.append(_Turn("user", ["Go on."]))
        if turns[-1].role == role:
            turns[-1].contents += turn.contents
            turns[-1].calls += turn.calls
        else:
            turns.append(_Turn(role, turn.contents, turn.calls))
    turns[0].contents += [instruction] if instruction else []
    return tuple(_message(turn, bool(instruction)) for turn in turns if turn.role != "system" or turn.contents)


def _iter_turns(messages: tuple[ChatMessage, ...], in_json: bool) -> Iterator[_Turn]:
    names: dict[str, str] = {}
    for message in messages:
        made = {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
        names |= {key: _call_label(call["name"], call["arguments"], in_json) for key, call in made.items()}
        calls = [(call["name"], call["arguments"]) for call in made.values()]
        content = message.get("content") or ""
        if message["role"] == "tool":
            yield _Turn("user", [f"[{names.get(message['tool_call_id'], 'a tool')} answered] {_join_text([content])}"])
        elif content or in_json or message["role"] != "assistant":
            yield _Turn(message["role"], [content], calls)


def _call_label(name: str, arguments: str, in_json: bool) -> str:
    return name if in_json else f"{name} with {arguments[:MAX_ARGUMENT_CHARS] or '{}'}"


def _message(turn: _Turn, in_json: bool) -> ChatMessage:
    if turn.role == "assistant":
        text = _join_text(turn.contents)
        return {"role": "assistant", "content": json_message_text(text, turn.calls) if in_json else text}
    if all(isinstance(content, str) for content in turn.contents):
        return {"role": turn.role, "content": _join_text(turn.contents)}
    parts = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in turn.contents if one]
    return {"role": turn.role, "content": [part for some in parts for part in some]}


def json_message_text(text: str, calls: list[tuple[str, str]]) -> str:
    """Return an assistant message in the JSON format of tool calls. The arguments are JSON already."""
    made = (f'{{"tool": {_json_string(name)}, "args": {arguments or "{}"}}}' for name, arguments in calls)
    return f'{{"text": {_json_string(text)}, "calls": [{", ".join(made)}]}}'


def _join_text(contents: list[Any]) -> str:
    texts = (one if isinstance(one, str) else "".join(part.get("text", "") for part in one) for one in contents)
    return "\n\n".join(filter(None, texts))


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
