"""Dialect: the refusals of a model server, and the shape of its answers. Pure, as `chat_protocol.py` is.

This one refuses what no provider accepts, and streams by the book. A provider that differs is a subclass.
"""

import json
import math
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from roboco.lab.servers.chat_protocol import ChatRefusal, ChatReply, ChatRequest, Json, encoded, split_text, words

CREATED: Final = 1_700_000_000
DONE: Final = b"data: [DONE]\n\n"
MODEL_LIST: Final[Json] = {
    "object": "list",
    "data": [{"id": "scripted", "object": "model", "created": CREATED, "owned_by": "roboco"}],
}
_KINDS: Final = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


@dataclass(frozen=True)
class Stream:
    """A reply as server-sent events: the opening, the chunks, and the ending."""

    opening: bytes
    chunks: list[bytes]
    ending: bytes


class Dialect:
    """The common denominator of all providers. The same request and reply always make the same bytes."""

    chat_path = "/v1/chat/completions"
    """The end of the path of chat requests."""
    reasoning_field = "reasoning_content"

    def check(self, request: ChatRequest) -> None:
        """Raise ChatRefusal if the server refuses this chat request, such as one whose calls lack their results."""
        if not request.messages:
            raise ChatRefusal("the request has no messages")
        waiting: list[str] = []
        for n, message in enumerate([*request.messages, {"role": "end"}]):
            if message["role"] != "tool":
                if waiting:
                    raise ChatRefusal(f"the calls {', '.join(waiting)} have no result before messages[{n}]")
                waiting = [call["id"] for call in message.get("tool_calls") or ()]
            elif message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                raise ChatRefusal(f"messages[{n}] is the result of no call of the message before")

    def reply(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Return the reply of a model of this provider, e.g. with the thoughts that it always has."""
        return reply

    def error_body(self, error: ChatRefusal) -> object:
        """Return the body of an error."""
        kind = _KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
        message = error.message or f"status {error.status}"
        return {"error": {"message": message, "type": kind, "param": error.param, "code": error.code, **error.more}}

    def failure(self, request: ChatRequest, error: ChatRefusal) -> bytes:
        """Return the end of a stream that fails."""
        return event(self.error_body(error))

    def call_id(self, request: ChatRequest, n: int) -> str:
        """Return the id of the nth call of a reply."""
        return f"call_{request.digest}_{n}"

    def calls(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        """Return the reply's tool calls in the form of a complete message."""
        return [
            {
                "id": self.call_id(request, n),
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for n, (name, given) in enumerate(reply.tool_calls)
        ]

    def call_deltas(self, index: int, call: Json) -> list[Json]:
        """Return one call in the form of a stream: its id and name, then its arguments in pieces."""
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        opening = {**call, "index": index, "function": {"name": name, "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": piece}} for piece in split_text(arguments, 4)]
        return [opening, *rest]

    def thoughts(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        """Return the deltas of the reply's thoughts."""
        return [{self.reasoning_field: piece} for piece in words(reply.reasoning)]

    def deltas(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        """Return the deltas of the reply: its thoughts, its text, then the interleaved pieces of its tool calls."""
        rows = zip_longest(*(self.call_deltas(n, call) for n, call in enumerate(self.calls(request, reply))))
        calls = [{"tool_calls": [piece]} for piece in chain.from_iterable(rows) if piece is not None]
        return [*self.thoughts(request, reply), *({"content": piece} for piece in reply.pieces), *calls]

    def message(self, request: ChatRequest, reply: ChatReply) -> Json:
        """Return the message of an answer that is not streamed."""
        message: Json = {"role": "assistant", "content": "".join(reply.pieces) or None}
        if reply.reasoning:
            message[self.reasoning_field] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = self.calls(request, reply)
        return message

    def usage(self, request: ChatRequest, reply: ChatReply) -> Json:
        """Return the token counts. By default a prompt token is four characters, a completion token one chunk."""
        estimate = (math.ceil(len(json.dumps(request.messages)) / 4), len(self.deltas(request, reply)))
        prompt, completion = reply.usage or estimate
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def envelope(self, request: ChatRequest, kind: str, choices: list[Json], used: Json | None) -> Json:
        """Return a chunk or a complete answer with these choices."""
        return {
            "id": f"chatcmpl-{request.digest}",
            "object": kind,
            "created": CREATED,
            "model": request.model,
            "choices": choices,
            "usage": used,
        }

    def completion(self, request: ChatRequest, reply: ChatReply) -> Json:
        """Return the reply as one body, for a request without streaming."""
        message = self.message(request, reply)
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason(reply)}
        return self.envelope(request, "chat.completion", [choice], self.usage(request, reply))

    def finish_reason(self, reply: ChatReply) -> str:
        """Return the reason for which the reply ends."""
        return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")

    def chunk(self, request: ChatRequest, delta: Json, reason: str | None = None) -> bytes:
        """Return an event with one delta."""
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event(self.envelope(request, "chat.completion.chunk", [choice], None))

    def opening(self, request: ChatRequest) -> bytes:
        """Return the begin of a stream."""
        return self.chunk(request, {"role": "assistant", "content": ""})

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        """Return the end of a stream. The usage is its last event, if the request includes it."""
        last = self.chunk(request, {}, self.finish_reason(reply))
        if (request.body.get("stream_options") or {}).get("include_usage"):
            used = self.usage(request, reply)
            last += event(self.envelope(request, "chat.completion.chunk", [], used))
        return last + DONE

    def stream(self, request: ChatRequest, reply: ChatReply) -> Stream:
        """Return the reply as events."""
        if reply.failure is not None:
            ending = self.failure(request, reply.failure)
        else:
            ending = self.ending(request, reply) if reply.garbage is None else reply.garbage
        chunks = [self.chunk(request, delta) for delta in self.deltas(request, reply)]
        return Stream(self.opening(request), chunks, ending)


def event(value: object) -> bytes:
    """Return the value as a server-sent event."""
    return b"data: %s\n\n" % encoded(value)
