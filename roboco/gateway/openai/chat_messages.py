"""chat_messages: the `messages` of a chat completion as entries of a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any

from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.turn import Called, Entry, Returned, Said, message_entry, text_of


def chat_entries(messages: Sequence[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the entries of chat messages, in order. Raise Problem for a message that is wrong or not text."""
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str):
                raise wrong_parameter(f"{where}.tool_call_id", "is missing")
            yield Returned(call_id, text_of(message.get("content"), f"{where}.content"))
            continue
        entry = message_entry(message.get("role"), message.get("content"), where)
        yield entry
        if isinstance(entry, Said) and entry.role == "assistant":
            yield from _calls(message.get("tool_calls"), where)


def _calls(calls: Any, where: str) -> Iterator[Called]:
    if not isinstance(calls, list | None):
        raise wrong_parameter(f"{where}.tool_calls", "must be a list")
    for index, call in enumerate(calls or ()):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
                yield Called(call_id, name, arguments)
            case _:
                raise wrong_parameter(f"{where}.tool_calls.{index}", "must have id, function.name and arguments")
