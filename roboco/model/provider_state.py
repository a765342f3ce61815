"""provider_state: what a provider wants back with its replies, such as signatures, reasoning and its own ids of calls.

    reply ─► Reply.provider, marked with server and model ─► metadata of the step ─► `provider` of the message
          ─► the same server and model: sent;   any other: removed

It is data of the provider, or of a caller that imported a history: it never replaces what Roboco itself sends.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roboco.domain.prompt.chat import ChatMessage
from roboco.ports.model import Reply, Request

_OWN_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "function_call", "provider"})
_OWN_CALL_FIELDS = frozenset({"id", "type", "index", "function"})
_ONLY_WITH_CALLS = frozenset({"reasoning_content", "reasoning"})
"""Reasoning in plain words is wanted only while its tool calls are answered."""
_MAX_CALL_ID_CHARS = 128
_SHORT_ID_CHARS = 9


def server_identity(provider: str, base_url: str) -> str:
    """Return a short name of the server that does not show its address, which may be an internal one."""
    return hashlib.sha256(f"{provider} {base_url}".encode()).hexdigest()[:16]


def marked(reply: Reply, server: str, request: Request) -> Reply:
    """Return the reply with server and model in what the provider wants back."""
    if not reply.provider:
        return reply
    return replace(reply, provider={"server": server, "model": request.profile.model} | reply.provider)


def for_server(request: Request, server: str) -> Request:
    """Return the request, with `provider` only in the messages that this server and model wrote."""
    if not any("provider" in message for message in request.messages):
        return request
    wanted = (server, request.profile.model)
    messages = (
        message if "provider" not in message or _mark(message["provider"]) == wanted else _without_provider(message)
        for message in request.messages
    )
    return replace(request, messages=tuple(messages))


def _mark(state: Any) -> tuple[Any, Any]:
    return (state.get("server"), state.get("model")) if isinstance(state, Mapping) else (None, None)


def _without_provider(message: ChatMessage) -> ChatMessage:
    return {name: value for name, value in message.items() if name != "provider"}


def chat_messages(
    messages: Iterable[ChatMessage], left_out: frozenset[str], short_ids: bool, all_reasoning: bool
) -> list[ChatMessage]:
    """Return the messages as chat completions, with what the provider wants back. `left_out` are refused fields.

    With `short_ids`, ids of calls that are not the provider's own get nine letters and digits. With `all_reasoning`,
    the reasoning of replies without calls returns as well.
    """
    ids: dict[str, str] = {}
    excluded = _OWN_MESSAGE_FIELDS | left_out
    without_calls = excluded if all_reasoning else excluded | _ONLY_WITH_CALLS
    return [
        _restored(message, excluded if message.get("tool_calls") else without_calls, short_ids, ids)
        for message in messages
    ]


def _restored(message: ChatMessage, excluded: frozenset[str], short_ids: bool, ids: dict[str, str]) -> ChatMessage:
    state = message.get("provider") or {}
    message = _without_provider(message)
    if calls := message.get("tool_calls"):
        message["tool_calls"] = _restored_calls(calls, state.get("calls"), short_ids, ids)
    elif "tool_call_id" in message:
        message["tool_call_id"] = ids.get(message["tool_call_id"], message["tool_call_id"])
    further = state.get("message")
    if isinstance(further, Mapping):
        message |= {name: value for name, value in further.items() if name not in excluded}
    return message


def _restored_calls(calls: list[Any], states: Any, short_ids: bool, ids: dict[str, str]) -> list[Any]:
    """Return the calls with the provider's own ids and fields. Note each id that changes.

    Some servers give calls of several replies one id, which others refuse: a later one has Roboco's.
    """
    known = [state if isinstance(state, Mapping) else {} for state in states] if isinstance(states, list) else []
    known += [{}] * (len(calls) - len(known))
    own_ids = own_call_ids(calls, known)
    if not set(ids.values()).isdisjoint(own_ids):
        own_ids = []
    restored = []
    for number, (call, state) in enumerate(zip(calls, known, strict=False)):
        new_id = own_ids[number] if own_ids else _short_id(call["id"]) if short_ids else call["id"]
        ids[call["id"]] = new_id
        fields = {name: value for name, value in state.items() if name not in _OWN_CALL_FIELDS}
        restored.append(fields | call | {"id": new_id})
    return restored


def own_call_ids(calls: Sequence[Any], states: Any) -> list[str]:
    """Return the provider's own ids of the calls, or [] if it has not given each call another one."""
    listed = states if isinstance(states, list) else []
    ids = [state.get("id") for state in listed[: len(calls)] if isinstance(state, Mapping)]
    own = [one for one in ids if isinstance(one, str) and 0 < len(one) <= _MAX_CALL_ID_CHARS]
    return own if len(set(own)) == len(calls) else []


def _short_id(call_id: str) -> str:
    return hashlib.sha256(call_id.encode()).hexdigest()[:_SHORT_ID_CHARS]
