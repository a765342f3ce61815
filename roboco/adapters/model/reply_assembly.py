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
from roboco.domain.tokens import estimate_tokens_of_bytes
from roboco.errors import ModelError
from roboco.ports.model import Reply, RequestedCall

MAX_HELD_CHARS = 1_000_000
"""Characters of a reply that is held back until it is complete."""
MAX_TEXT_BYTES = 4_000_000
"""Bytes of the text of a reply, in UTF-8."""
MAX_ARGUMENT_CHARS = 4_000_000
"""Characters of the arguments of all calls of a reply together."""
MAX_REPLY_CALLS = 128
"""Calls of a reply; further ones are left out."""
MAX_NAME_CHARS = 256
"""Characters of a name of a tool or model, and of a finish reason; the rest is left out."""
MAX_REPLY_CHUNKS = 2_000_000
"""Chunks of a reply, including empty ones."""
MAX_STREAM_SECONDS = 3600.0
"""Seconds from the start of the call. A server that sends one word a minute never exceeds the idle timeout."""

MAX_TOKEN_COUNT = 1_000_000_000
"""Larger token counts are reduced to this value, so that sums of counts fit into 64 bits."""


@dataclass
class _PartialCall:
    name: str = ""
    arguments: StringIO = field(default_factory=StringIO)

    def to_requested_call(self) -> RequestedCall:
        """Return the call as the model wrote it."""
        return RequestedCall(well_formed(self.name), well_formed(self.arguments.getvalue()))


class ReplyAssembly:
    """The part of a reply that has arrived. A call is identified by its index or, without one, by a new id."""

    def __init__(self, model: str) -> None:
        self._started_at = time.monotonic()
        self._first_token_at: float | None = None
        self._model = model
        self._finish_reason = ""
        self._calls: dict[int, _PartialCall] = {}
        self._call_id_hashes: set[int] = set()
        self._exceeded_limit = ""
        self._chunk_count = 0
        self._text_size = 0
        self._arguments_size = 0
        self._tokens = (0, 0)
        self._delta_count = 0
        self._pending_surrogate = ""
        self._held_texts: list[str] = []
        self._held_size = 0

    @property
    def has_output(self) -> bool:
        """Return True if any part of the reply has arrived."""
        return self._first_token_at is not None

    @property
    def finished(self) -> bool:
        """Return True if the model has declared its reply complete, or if the reply was truncated here."""
        return self._finish_reason != "" or self._exceeded_limit != ""

    @property
    def exceeded_limit(self) -> str:
        """Return the limit of this module at which the reply was truncated, or "" if it was not."""
        return self._exceeded_limit

    @property
    def held_text(self) -> str:
        """Return the text that was held back."""
        return "".join(self._held_texts)

    @property
    def truncated(self) -> bool:
        """Return True if the reply ended at a limit."""
        return self._finish_reason == "length" or self._exceeded_limit != ""

    def hold(self, text: str) -> None:
        """Hold the text back. Raise ModelError if it is too long for a reply in JSON."""
        self._held_texts.append(text)
        self._held_size += len(text)
        if self._held_size > MAX_HELD_CHARS:
            message = (
                f"model {self._model!r} answered with more than {MAX_HELD_CHARS} characters where JSON was asked for"
            )
            raise ModelError("too_long", message, False)

    def add_chunk(self, chunk: Any) -> str:
        """Add an unchecked chunk and return its text.

        Raise TypeError, AttributeError or LookupError if it is not a chunk.
        """
        self._count_chunk()
        self._model = _short_name(chunk.get("model")) or self._model
        if isinstance(usage := chunk.get("usage"), dict):
            self._tokens = (_token_count(usage.get("prompt_tokens")), _token_count(usage.get("completion_tokens")))
        if not (choices := chunk.get("choices")):
            return ""
        choice = choices[0]
        self._finish_reason = _short_name(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta") or {}
        calls = delta.get("tool_calls") or []
        text = self._truncate_text(self._join_surrogates(_require_text(delta.get("content"))))
        for call in calls:
            self._add_call(call)
            if self._exceeded_limit:
                break
        if text or calls:
            self._delta_count += 1
            self._first_token_at = self._first_token_at or time.monotonic()
        return text

    def reply(self) -> Reply:
        """Return the reply.

        If the server reports no usage, tokens out is the number of deltas, or an estimate by size if that is larger.
        """
        now = time.monotonic()
        tokens_in, tokens_out = self._tokens
        return Reply(
            model=self._model,
            finish_reason="length" if self._exceeded_limit else self._finish_reason,
            limit=self._exceeded_limit,
            calls=tuple(self._calls[place].to_requested_call() for place in sorted(self._calls)),
            tokens_in=tokens_in,
            tokens_out=tokens_out or self._count_tokens_out(),
            first_token_ms=round(((self._first_token_at or now) - self._started_at) * 1000),
            duration_ms=round((now - self._started_at) * 1000),
        )

    def _join_surrogates(self, text: str) -> str:
        """Return the pending half character and the text.

        A half at the end of the text is kept for the next text, unless the reply is finished.
        """
        text = self._pending_surrogate + text
        self._pending_surrogate = "" if self.finished or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
        return well_formed(text.removesuffix(self._pending_surrogate))

    def _count_chunk(self) -> None:
        self._chunk_count += 1
        if self._chunk_count > MAX_REPLY_CHUNKS:
            self._exceeded_limit = f"{MAX_REPLY_CHUNKS} chunks"
        elif time.monotonic() - self._started_at > MAX_STREAM_SECONDS:
            self._exceeded_limit = f"{MAX_STREAM_SECONDS:g} seconds"

    def _truncate_text(self, text: str) -> str:
        """Return the text, truncated if the reply exceeds the limit."""
        size = len(text.encode())
        left = MAX_TEXT_BYTES - self._text_size
        if size > left:
            self._exceeded_limit = f"{MAX_TEXT_BYTES} bytes of text"
            text = text.encode()[:left].decode(errors="ignore")
        self._text_size += min(size, left)
        return text

    def _count_tokens_out(self) -> int:
        """Return the number of received tokens, as far as it is known."""
        size = self._text_size + self._arguments_size if self._exceeded_limit else 0
        return max(self._delta_count, estimate_tokens_of_bytes(size))

    def _add_call(self, delta: Any) -> None:
        position = self._call_index(delta.get("index"), delta.get("id"))
        if position not in self._calls and len(self._calls) == MAX_REPLY_CALLS:
            self._exceeded_limit = f"{MAX_REPLY_CALLS} calls"
            return
        call = self._calls.setdefault(position, _PartialCall())
        if (function := delta.get("function")) is not None:
            call.name = (call.name + _require_text(function.get("name")))[:MAX_NAME_CHARS]
            self._add_arguments(call, _require_text(function.get("arguments")))

    def _add_arguments(self, call: _PartialCall, text: str) -> None:
        left = MAX_ARGUMENT_CHARS - self._arguments_size
        if len(text) > left:
            self._exceeded_limit = f"{MAX_ARGUMENT_CHARS} characters of arguments"
        self._arguments_size += call.arguments.write(text[:left])

    def _call_index(self, index: Any, call_id: Any) -> int:
        """Return the call's index. If the server sends none, a new id starts a new call."""
        is_new = call_id is not None and hash(call_id) not in self._call_id_hashes
        if call_id is not None and len(self._call_id_hashes) <= MAX_REPLY_CALLS:
            self._call_id_hashes.add(hash(call_id))
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        return len(self._calls) if is_new or not self._calls else max(self._calls)


def _require_text(value: object) -> str:
    """Return the text, or "" for None. Raise TypeError for anything else."""
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"expected a text, not {value!r:.100}")


def _short_name(value: object) -> str:
    """Return the beginning of the text, well-formed, or "" for None."""
    return well_formed(_require_text(value)[:MAX_NAME_CHARS])


def _token_count(value: object) -> int:
    """Return the count, or 0 if the value is not a count."""
    count: int = value if isinstance(value, int) and not isinstance(value, bool) else 0
    return min(max(count, 0), MAX_TOKEN_COUNT)
