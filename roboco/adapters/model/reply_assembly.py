"""Assembly: a reply, assembled from the deltas of a stream.

All text that leaves this module is well-formed. JSON escapes a character beyond U+FFFF as two halves (surrogates), and
a server that splits its text anywhere sends them in two deltas. Such halves are joined; a lone one becomes U+FFFD.

A server can send without end. A reply that reaches one of the limits below is truncated, as by a limit of tokens: its
`finish_reason` is "length", and `limit` names the limit. The caller then closes the connection. The limits are far
beyond any useful reply, so they are not settings.
"""

import time
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from roboco.domain.canonical_json import well_formed
from roboco.domain.tokens import tokens_of
from roboco.errors import ModelError
from roboco.ports import Reply, RequestedCall

MOST_HELD = 1_000_000
"""Characters of a reply that is held back until it is complete."""
MOST_TEXT = 4_000_000
"""Bytes of the text of a reply, in UTF-8."""
MOST_ARGUMENTS = 4_000_000
"""Characters of the arguments of all calls of a reply together."""
MOST_CALLS = 128
"""Calls of a reply; further ones are left out."""
MOST_NAME = 256
"""Characters of a name of a tool or model, and of a finish reason; the rest is left out."""
MOST_CHUNKS = 2_000_000
"""Chunks of a reply, including empty ones."""
MOST_SECONDS = 3600.0
"""Seconds from the start of the call. A server that sends one word a minute never exceeds the idle timeout."""

MOST_TOKENS = 1_000_000_000
"""Larger token counts are reduced to this value, so that sums of counts fit into 64 bits."""


@dataclass
class _Call:
    name: str = ""
    arguments: StringIO = field(default_factory=StringIO)

    def requested(self) -> RequestedCall:
        """Return the call as the model wrote it."""
        return RequestedCall(well_formed(self.name), well_formed(self.arguments.getvalue()))


class Assembly:
    """The part of a reply that has arrived. A call is identified by its index or, without one, by a new id."""

    def __init__(self, model: str) -> None:
        self._started = time.monotonic()
        self._first: float | None = None
        self._model = model
        self._finish_reason = ""
        self._calls: dict[int, _Call] = {}
        self._ids: set[int] = set()
        self._limit = ""
        self._chunks = 0
        self._text_size = 0
        self._arguments_size = 0
        self._tokens = (0, 0)
        self._pieces = 0
        self._half = ""
        self._held: list[str] = []
        self._held_size = 0

    @property
    def begun(self) -> bool:
        """Return True if any part of the reply has arrived."""
        return self._first is not None

    @property
    def finished(self) -> bool:
        """Return True if the model has declared its reply complete, or if the reply was truncated here."""
        return self._finish_reason != "" or self._limit != ""

    @property
    def limit(self) -> str:
        """Return the limit of this module at which the reply was truncated, or "" if it was not."""
        return self._limit

    @property
    def held(self) -> str:
        """Return the text that was held back."""
        return "".join(self._held)

    @property
    def cut_off(self) -> bool:
        """Return True if the reply ended at a limit."""
        return self._finish_reason == "length" or self._limit != ""

    def hold(self, text: str) -> None:
        """Hold the text back. Raise ModelError if it is too long for a reply in JSON."""
        self._held.append(text)
        self._held_size += len(text)
        if self._held_size > MOST_HELD:
            message = f"model {self._model!r} answered with more than {MOST_HELD} characters where JSON was asked for"
            raise ModelError("too_long", message, False)

    def take(self, chunk: Any) -> str:
        """Add an unchecked chunk and return its text.

        Raise TypeError, AttributeError or LookupError if it is not a chunk.
        """
        self._count_chunk()
        self._model = _name(chunk.get("model")) or self._model
        if isinstance(usage := chunk.get("usage"), dict):
            self._tokens = (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
        if not (choices := chunk.get("choices")):
            return ""
        choice = choices[0]
        self._finish_reason = _name(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta") or {}
        calls = delta.get("tool_calls") or []
        text = self._within(self._joined(_text(delta.get("content"))))
        for call in calls:
            self._take_call(call)
            if self._limit:
                break
        if text or calls:
            self._pieces += 1
            self._first = self._first or time.monotonic()
        return text

    def reply(self) -> Reply:
        """Return the reply.

        If the server reports no usage, tokens out is the number of deltas, or an estimate by size if that is larger.
        """
        now = time.monotonic()
        tokens_in, tokens_out = self._tokens
        return Reply(
            model=self._model,
            finish_reason="length" if self._limit else self._finish_reason,
            limit=self._limit,
            calls=tuple(self._calls[place].requested() for place in sorted(self._calls)),
            tokens_in=tokens_in,
            tokens_out=tokens_out or self._pieces_or_estimate(),
            first_token_ms=round(((self._first or now) - self._started) * 1000),
            duration_ms=round((now - self._started) * 1000),
        )

    def _joined(self, text: str) -> str:
        """Return the pending half character and the text.

        A half at the end of the text is kept for the next text, unless the reply is finished.
        """
        text = self._half + text
        self._half = "" if self.finished or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
        return well_formed(text.removesuffix(self._half))

    def _count_chunk(self) -> None:
        self._chunks += 1
        if self._chunks > MOST_CHUNKS:
            self._limit = f"{MOST_CHUNKS} chunks"
        elif time.monotonic() - self._started > MOST_SECONDS:
            self._limit = f"{MOST_SECONDS:g} seconds"

    def _within(self, text: str) -> str:
        """Return the text, truncated if the reply exceeds the limit."""
        size = len(text.encode())
        left = MOST_TEXT - self._text_size
        if size > left:
            self._limit = f"{MOST_TEXT} bytes of text"
            text = text.encode()[:left].decode(errors="ignore")
        self._text_size += min(size, left)
        return text

    def _pieces_or_estimate(self) -> int:
        """Return the number of received tokens, as far as it is known."""
        size = self._text_size + self._arguments_size if self._limit else 0
        return max(self._pieces, tokens_of(size))

    def _take_call(self, delta: Any) -> None:
        place = self._place(delta.get("index"), delta.get("id"))
        if place not in self._calls and len(self._calls) == MOST_CALLS:
            self._limit = f"{MOST_CALLS} calls"
            return
        call = self._calls.setdefault(place, _Call())
        if (function := delta.get("function")) is not None:
            call.name = (call.name + _text(function.get("name")))[:MOST_NAME]
            self._take_arguments(call, _text(function.get("arguments")))

    def _take_arguments(self, call: _Call, text: str) -> None:
        left = MOST_ARGUMENTS - self._arguments_size
        if len(text) > left:
            self._limit = f"{MOST_ARGUMENTS} characters of arguments"
        self._arguments_size += call.arguments.write(text[:left])

    def _place(self, index: Any, call_id: Any) -> int:
        """Return the call's index. If the server sends none, a new id starts a new call."""
        fresh = call_id is not None and hash(call_id) not in self._ids
        if call_id is not None and len(self._ids) <= MOST_CALLS:
            self._ids.add(hash(call_id))
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        return len(self._calls) if fresh or not self._calls else max(self._calls)


def _text(value: object) -> str:
    """Return the text, or "" for None. Raise TypeError for anything else."""
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"expected a text, not {value!r:.100}")


def _name(value: object) -> str:
    """Return the beginning of the text, well-formed, or "" for None."""
    return well_formed(_text(value)[:MOST_NAME])


def _count(value: object) -> int:
    """Return the count, or 0 if the value is not a count."""
    count: int = value if isinstance(value, int) and not isinstance(value, bool) else 0
    return min(max(count, 0), MOST_TOKENS)
