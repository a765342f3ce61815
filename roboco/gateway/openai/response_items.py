"""response_items: the `input` of a response as entries of a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.turn import Called, Decided, Entry, Referred, Returned, Said, message_entry, text_of

_DROPPED: Final = ("reasoning", "mcp_call", "mcp_list_tools", "mcp_approval_request")
"""Outputs that clients send back with the conversation, and that the texts around them stand for."""


def input_entries(given: str | Sequence[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the entries of a response's input, in order. Raise Problem for an item that is wrong or not supported."""
    if isinstance(given, str):
        yield Said("user", given)
        return
    for index, item in enumerate(given):
        entry = input_entry(item, f"input.{index}")
        if entry is not None:
            yield entry


def input_entry(item: dict[str, Any], where: str) -> Entry | None:
    """Return the entry of an item, or None if the texts around it stand for it. Raise Problem for a wrong one."""
    match item:
        case {"type": "message", "role": role, "content": content}:
            return message_entry(role, content, where)
        case {"role": role, "content": content} if "type" not in item:
            return message_entry(role, content, where)
        case {"type": "item_reference", "id": str(item_id)}:
            return Referred(item_id)
        case {"type": "function_call", "call_id": str(call_id), "name": str(name), "arguments": str(arguments)}:
            return Called(call_id, name, arguments)
        case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
            return Returned(call_id, text_of(output, f"{where}.output"))
        case {"type": "mcp_approval_response", "approval_request_id": str(request_id), "approve": bool(approve)}:
            return Decided(request_id, approve, str(item.get("reason") or ""))
        case {"type": kind} if kind in _DROPPED:
            return None
    raise wrong_parameter(where, f"items of type {str(item.get('type'))[:60]!r} with these fields are not supported")
