"""The protocol of the scripted model server: chat-completions requests and replies.

Pure: no I/O, no clock, no randomness. The same request and reply always make the same bytes.
"""

import hashlib
import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise, zip_longest
from typing import Any

CREATED = 1_700_000_000
DONE = b"data: [DONE]\n\n"

Json = dict[str, Any]


@dataclass(frozen=True)
class ChatRequest:
    """An HTTP request with header names in lower case. `body` is {} if it was not a JSON object."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = field(default_factory=dict)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[Json]:
        given = self.body.get("messages")
        return given if isinstance(given, list) else []

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools, in order."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]

    @property
    def system(self) -> str:
        """The text of all system and developer messages, a blank line apart."""
        instructions = (m for m in self.messages if m["role"] in ("system", "developer"))
        return "\n\n".join(content_text(m) for m in instructions)

    @property
    def last_user(self) -> str:
        """The text of the last user message, or ''."""
        return next((content_text(m) for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def tool_results(self) -> list[tuple[str, str]]:
        """(tool_call_id, content) of the tool messages after the last assistant message."""
        results: list[tuple[str, str]] = []
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                break
            if message["role"] == "tool":
                results.append((message["tool_call_id"], content_text(message)))
        return results[::-1]

    def count(self, role: str) -> int:
        """Return the number of messages with this role; `count('assistant')` is the number of earlier turns."""
        return sum(message["role"] == role for message in self.messages)

    @cached_property
    def digest(self) -> str:
        """A short hash of the conversation: ids made of it differ by turn, but not if a turn repeats."""
        return hashlib.sha256(json.dumps(self.messages).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class ChatReply:
    """The server's answer. A fault after more chunks than the reply has happens at its end, so none is skipped.

    text, chunks: the text, cut by words, into n parts, or as listed (then `text` is unused).
    tool_calls: (name, arguments) after the text; arguments are a dict, or a raw string for nonsense JSON.
    delay, interval: seconds from the response head to the first chunk, and from chunk to chunk.
    held_until: the server sends no chunk before this is set.
    status, code, headers: from 400 on an error whose message is `text`, e.g. 429 with Retry-After.
    break_after, hang_after: close the connection, or fall silent, after n chunks; 0 is before the head.
    garbage: bytes in place of the end of the stream (the whole body, if not streamed).
    finish_reason, usage: by default derived from the reply; usage is (prompt, completion) tokens.
    """

    text: str = ""
    chunks: int | Sequence[str] | None = None
    tool_calls: Sequence[tuple[str, Mapping[str, object] | str]] = ()
    delay: float = 0.0
    interval: float = 0.0
    held_until: threading.Event | None = None
    status: int = 200
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    break_after: int | None = None
    hang_after: int | None = None
    garbage: bytes | None = None
    finish_reason: str | None = None
    usage: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.break_after is not None and self.hang_after is not None:
            raise ValueError("a reply has break_after and hang_after, give one of them")

    @property
    def pieces(self) -> list[str]:
        """The text, cut into chunks."""
        if self.chunks is None:
            return re.findall(r"\S+\s*|\s+", self.text)
        return split_text(self.text, self.chunks) if isinstance(self.chunks, int) else list(self.chunks)


def split_text(text: str, parts: int) -> list[str]:
    """Return the text in this number of nearly equal parts, or fewer if it is shorter."""
    parts = min(parts, len(text))
    marks = [n * len(text) // parts for n in range(parts + 1)] if parts else []
    return [text[start:end] for start, end in pairwise(marks)]


def content_text(message: Json) -> str:
    """Return the text of a message whose content is a string, a list of parts, or null."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def encoded(value: object) -> bytes:
    """Return compact JSON in UTF-8, or in ASCII if a text is not well-formed."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return an error in the form that providers use."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message or f"status {status}", "type": kind, "param": None, "code": code}}


def calls(request: ChatRequest, reply: ChatReply) -> list[Json]:
    """Return the reply's tool calls in the form of a complete message."""
    return [
        {
            "id": f"call_{request.digest}_{n}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for n, (name, given) in enumerate(reply.tool_calls)
    ]


def call_deltas(index: int, call: Json) -> list[Json]:
    """Return one call in the form of a stream: its id and name, then its arguments in pieces."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    opening = {**call, "index": index, "function": {"name": name, "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in split_text(arguments, 4)]
    return [opening, *rest]


def deltas(request: ChatRequest, reply: ChatReply) -> list[Json]:
    """Return the deltas of the reply: its text, then the interleaved pieces of its tool calls."""
    rows = zip_longest(*(call_deltas(n, call) for n, call in enumerate(calls(request, reply))))
    pieces = (delta for delta in chain.from_iterable(rows) if delta is not None)
    return [{"content": piece} for piece in reply.pieces] + [{"tool_calls": [piece]} for piece in pieces]


def usage(request: ChatRequest, reply: ChatReply) -> Json:
    """Return the reply's token counts. By default a prompt token is four characters, a completion token one chunk."""
    estimate = (math.ceil(len(json.dumps(request.messages)) / 4), len(deltas(request, reply)))
    prompt, completion = reply.usage or estimate
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def envelope(request: ChatRequest, kind: str, choices: list[Json], used: Json | None) -> Json:
    """Return a chunk or a complete answer with these choices."""
    return {
        "id": f"chatcmpl-{request.digest}",
        "object": kind,
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": used,
    }


def model_list(models: Sequence[str]) -> Json:
    """Return the answer to GET /v1/models."""
    entries = [{"id": m, "object": "model", "created": CREATED, "owned_by": "roboco"} for m in models]
    return {"object": "list", "data": entries}


def finish_reason(reply: ChatReply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def completion(request: ChatRequest, reply: ChatReply) -> Json:
    """Return the reply as one body, for a request without streaming."""
    message: Json = {"role": "assistant", "content": "".join(reply.pieces) or None}
    if reply.tool_calls:
        message["tool_calls"] = calls(request, reply)
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply)}
    return envelope(request, "chat.completion", [choice], usage(request, reply))


@dataclass(frozen=True)
class Stream:
    """A reply as server-sent events: the opening, the chunks, and the ending."""

    opening: bytes
    chunks: list[bytes]
    ending: bytes


def stream(request: ChatRequest, reply: ChatReply) -> Stream:
    """Return the reply as events. The usage is the last one, if the request includes it."""

    def event(choices: list[Json], used: Json | None = None) -> bytes:
        return b"data: %s\n\n" % encoded(envelope(request, "chat.completion.chunk", choices, used))

    def choice(delta: Json, reason: str | None = None) -> bytes:
        return event([{"index": 0, "delta": delta, "finish_reason": reason}])

    wanted = (request.body.get("stream_options") or {}).get("include_usage")
    ending = choice({}, finish_reason(reply)) + (event([], usage(request, reply)) if wanted else b"") + DONE
    return Stream(
        opening=choice({"role": "assistant", "content": ""}),
        chunks=[choice(delta) for delta in deltas(request, reply)],
        ending=ending if reply.garbage is None else reply.garbage,
    )
