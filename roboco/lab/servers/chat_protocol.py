"""The protocol of the scripted model server: chat-completions requests, replies and refusals.

Pure: no I/O, no clock, no randomness. `dialect.py` turns replies into bytes.
"""

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class ChatRequest:
    """An HTTP request with header names in lower case. `body` is {} if it was not a JSON object."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = field(default_factory=dict)
    query: str = ""

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


class ChatRefusal(Exception):
    """A request that the server refuses, or an error in its answer. `more` holds further fields of the error."""

    def __init__(
        self, message: str, *, param: str | None = None, code: object = None, status: int = 400, **more: object
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.more = more


@dataclass(frozen=True)
class ChatReply:
    """The server's answer. A fault after more chunks than the reply has happens at its end, so none is skipped.

    reasoning: the thoughts before the text, in chunks of a word.
    text, chunks: the text, cut by words, into n parts, or as listed (then `text` is unused).
    tool_calls: (name, arguments) after the text; arguments are a dict, or a raw string for nonsense JSON.
    delay, interval: seconds from the response head to the first chunk, and from chunk to chunk.
    held_until: the server sends no chunk before this is set.
    status, code, headers: from 400 on an error whose message is `text`, e.g. 429 with Retry-After.
    failure: an error that ends the stream after its chunks, though it began with the status 200.
    break_after, hang_after: close the connection, or fall silent, after n chunks; 0 is before the head.
    garbage: bytes in place of the end of the stream (the whole body, if not streamed).
    finish_reason, usage: by default derived from the reply; usage is (prompt, completion) tokens.
    """

    text: str = ""
    reasoning: str = ""
    chunks: int | Sequence[str] | None = None
    tool_calls: Sequence[tuple[str, Mapping[str, object] | str]] = ()
    delay: float = 0.0
    interval: float = 0.0
    held_until: threading.Event | None = None
    status: int = 200
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: ChatRefusal | None = None
    break_after: int | None = None
    hang_after: int | None = None
    garbage: bytes | None = None
    finish_reason: str | None = None
    usage: tuple[int, int] | None = None

    @property
    def pieces(self) -> list[str]:
        """The text, cut into chunks."""
        if self.chunks is None:
            return words(self.text)
        return split_text(self.text, self.chunks) if isinstance(self.chunks, int) else list(self.chunks)


def words(text: str) -> list[str]:
    """Return the words of the text, with the spaces between them."""
    return re.findall(r"\S+\s*|\s+", text)


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
