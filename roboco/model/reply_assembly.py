"""Assembly: a reply, assembled from the pieces of a stream, whichever protocol carries them.

All text that leaves this module is well-formed. JSON escapes a character beyond U+FFFF as two halves (surrogates), and
a server that splits its text anywhere sends them in two deltas. Such halves are joined; a lone one becomes U+FFFD.

A server can send without end. A reply that reaches one of the limits below, or the tokens that the limits of its task
leave, is truncated: its `finish_reason` is "length", and `limit` names the limit. The caller then closes the
connection. The limits below are far beyond any useful reply, so they are not settings.
"""

import json
import re
import time
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json, well_formed
from roboco.domain.tokens import estimate_tokens_of_bytes
from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError
from roboco.ports.model import Reply, RequestedCall

MAX_HELD_CHARS = 1_000_000
"""Characters of a reply that is held back until it is complete."""
MAX_TEXT_BYTES = 4_000_000
"""Bytes of the text of a reply, in UTF-8, and the same of its reasoning."""
MAX_ARGUMENT_CHARS = 4_000_000
"""Characters of the arguments of all calls of a reply together."""
MAX_REPLY_CALLS = 128
"""Calls of a reply; further ones are left out."""
MAX_NAME_CHARS = 256
"""Characters of a name of a tool or model, and of a finish reason; the rest is left out."""
MAX_REPLY_CHUNKS = 2_000_000
"""Chunks of a reply, including empty ones."""
MAX_STREAM_SECONDS = 3600.0
"""Seconds of a request. A server that sends one byte a minute may never exceed the idle timeout."""
MAX_REASONING_CHARS = 32_768
"""Characters of the reasoning that are kept for readers."""
MAX_PROVIDER_BYTES = 262_144
"""Bytes of the JSON that the provider receives again with the reply."""
MAX_REFUSAL_CHARS = 2_000
MAX_TOKEN_COUNT = 1_000_000_000
"""Larger token counts are reduced to this value, so that sums of counts fit into 64 bits."""
FINISH_REASONS = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_length", "max_length", "model_context_window_exceeded"),
        "length",
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(
        ("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "sensitive", "refusal"),
        "content_filter",
    ),
}
"""Reasons of other protocols, which some servers of chat completions send, in the words of chat completions."""
_MAX_CHECKED_CHARS = 4 * MAX_ARGUMENT_CHARS
_TEMPLATE = re.compile(r"<\|[^<>]{1,40}\|>|</?tool_call>|`{3}|\}")


@dataclass
class PartialCall:
    """A tool call, as far as it has arrived."""

    id: str = ""
    """The provider's id, or ""."""
    name: str = ""
    arguments: StringIO = field(default_factory=StringIO)
    provider: dict[str, Any] = field(default_factory=dict)
    """Further fields, which the provider must receive again with the call."""
    _fragment: str = ""
    _is_cumulative: bool = True
    _checked_chars: int = 0

    def is_complete(self) -> bool:
        """Return True if the arguments are a whole JSON object. After many checks of long arguments, return False."""
        self._checked_chars += self.arguments.tell()
        return self._checked_chars <= _MAX_CHECKED_CHARS and _is_object(self.arguments.getvalue())

    def has_arguments(self, text: str) -> bool:
        """Return True if these are the arguments until now."""
        return self.arguments.tell() == len(text) and self.arguments.getvalue() == text

    def add_arguments(self, text: str) -> int:
        """Add a piece of the arguments, and return its length."""
        self._is_cumulative = self._is_cumulative and text.startswith(self._fragment)
        self._fragment = text if self._is_cumulative else ""
        return self.arguments.write(text)

    def to_requested_call(self) -> RequestedCall:
        """Return the call as the model wrote it.

        Some servers repeat all arguments in each piece, so that the last one counts, or begin or end with "{}". Others
        encode them twice, write them twice, or leave signs of a chat template behind them.
        """
        text = self.arguments.getvalue()
        last, bare = self._fragment if self._is_cumulative else "", text.strip()
        meant = (text, last, bare.removeprefix("{}"), bare.removesuffix("{}"), _string_in(text), _object_in(bare))
        return RequestedCall(well_formed(self.name), well_formed(next(filter(_is_object, meant), text)))


def _string_in(text: str) -> str:
    """Return the string that the text is as JSON, or "" if it is none."""
    try:
        found = json.loads(text) if text.lstrip().startswith('"') else ""
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _object_in(text: str) -> str:
    """Return the object with which the text begins, if only its repetition or signs of a chat template follow."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return ""
    found = text[:end]
    rest = _TEMPLATE.sub("", text[end:].replace(found, "")).strip()
    return found if found.startswith(rest) else ""


def _is_object(text: str) -> bool:
    text = text.strip()
    try:
        return text.startswith("{") and text.endswith("}") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class ReplyAssembly:
    """The part of a reply that has arrived."""

    def __init__(self, model: str, max_tokens: int | None = None) -> None:
        self.calls: list[PartialCall] = []
        """The calls in the order in which they began."""
        self.provider: dict[str, Any] = {}
        """Further fields of the message, which the provider must receive again with it."""
        self.usage: ModelUsage | None = None
        """The usage that the provider has reported, or None."""
        self.max_tokens = max_tokens
        """The output tokens, as an estimate, at which the reply is truncated; None if there is no limit."""
        self.ended = False
        """True if the server has marked the end of its stream."""
        self.may_end = False
        """True after a chunk with which some servers end a reply without a mark: usage alone, or a whole message."""
        self._provider_size = 0
        self._started_at = time.monotonic()
        self._first_token_at: float | None = None
        self._model = model
        self._finish_reason = ""
        self.exceeded_limit = ""
        """The limit at which the reply was truncated, or "" if it was not."""
        self._chunk_count = 0
        self._text_size = 0
        self._reasoning_size = 0
        self._arguments_size = 0
        self._delta_count = 0
        self._reasoning_count = 0
        self._pending_surrogate = ""
        self._held_texts: list[str] = []
        self._held_size = 0
        self._reasoning = StringIO()
        self._refusal = StringIO()

    @property
    def has_output(self) -> bool:
        """Return True if any part of the reply has arrived, or of the reasoning before it."""
        return self._first_token_at is not None

    @property
    def output_size(self) -> int:
        """Return how much of text, reasoning and arguments has arrived."""
        return self._text_size + self._reasoning_size + self._arguments_size

    @property
    def has_chunks(self) -> bool:
        """Return True if any message of the server has arrived."""
        return self._chunk_count > 0

    @property
    def is_empty(self) -> bool:
        """Return True if the model has said and called nothing, and refused nothing."""
        return not (self._text_size or self.calls or self._refusal.tell())

    @property
    def finished(self) -> bool:
        """Return True if the model has declared its reply complete, or if the reply was truncated here."""
        return self._finish_reason != "" or self.exceeded_limit != ""

    @property
    def is_ended(self) -> bool:
        """Return True if nothing but usage can follow."""
        return self.finished or self.ended

    @property
    def is_whole(self) -> bool:
        """Return True if the reply counts, however its connection ends."""
        return self.is_ended or self.may_end

    @property
    def has_whole_calls(self) -> bool:
        """Return True if the reply calls tools, and the arguments of each call are whole."""
        return bool(self.calls) and all(call.is_complete() for call in self.calls)

    @property
    def held_text(self) -> str:
        """Return the text that was held back."""
        return "".join(self._held_texts)

    @property
    def truncated(self) -> bool:
        """Return True if the reply ended at a limit."""
        return self._finish_reason == "length" or self.exceeded_limit != ""

    @property
    def reasoning_tokens(self) -> int:
        """Return an estimate of the tokens of reasoning that have arrived."""
        return max(self._reasoning_count, estimate_tokens_of_bytes(self._reasoning_size))

    def hold(self, text: str) -> None:
        """Hold the text back. Raise ModelError if it is too long for a reply in JSON."""
        self._held_texts.append(text)
        self._held_size += len(text)
        if self._held_size > MAX_HELD_CHARS:
            message = (
                f"model {self._model!r} answered with more than {MAX_HELD_CHARS} characters where JSON was asked for"
            )
            raise ModelError("too_long", message, False)

    def count_chunk(self) -> None:
        """Count a message of the server, even an empty one."""
        self._chunk_count += 1
        if self._chunk_count > MAX_REPLY_CHUNKS:
            self.exceeded_limit = f"{MAX_REPLY_CHUNKS} chunks"

    def check_time(self) -> None:
        """Truncate the reply if its server has had MAX_STREAM_SECONDS."""
        if time.monotonic() - self._started_at >= MAX_STREAM_SECONDS:
            self.exceeded_limit = f"{MAX_STREAM_SECONDS:g} seconds"

    def set_model(self, name: object) -> None:
        """Note the name of the model, as its server gives it."""
        if isinstance(name, str) and name and name != self._model:
            self._model = short_name(name)

    def finish(self, reason: object) -> None:
        """Note the reason for which the model has ended its reply. Anything but a text with letters is no reason.

        A later "stop" replaces none that says more.
        """
        if not isinstance(reason, str) or (word := reason.strip().lower()) in ("", "null", "none"):
            return
        word = word.removeprefix("finish_reason_")
        known = "content_filter" if word.startswith("content_filter") else FINISH_REASONS.get(word)
        if known != "stop" or not self._finish_reason:
            self._finish_reason = known or short_name(reason)

    def add_usage(self, usage: ModelUsage) -> None:
        """Note reported usage. Servers report the sum until now, some of them only a part of it in each chunk."""
        self.usage = usage if self.usage is None else self.usage.maximum(usage)

    def keep(self, fields: dict[str, Any], name: str, value: Any) -> None:
        """Keep a further piece of a field that the provider must receive again with the reply, or with a call."""
        if value is None or self._provider_size > MAX_PROVIDER_BYTES:
            return
        self._provider_size += len(name) + (len(value) if isinstance(value, str) else _json_size(value))
        if self._provider_size <= MAX_PROVIDER_BYTES:
            merge_field(fields, name, value)

    def add_text(self, text: str) -> str:
        """Add words, and return those that are well-formed now."""
        if not text and not self._pending_surrogate:
            return ""
        size = len(text)
        if text.isascii() and not self._pending_surrogate and self._text_size + size <= MAX_TEXT_BYTES:
            self._text_size += size
        else:
            text = self._truncate(self._join_surrogates(text))
        if text:
            self._note_output(text)
        return text

    def add_reasoning(self, text: str) -> str:
        """Add words of reasoning, and return them."""
        text = well_formed(text)
        if not text:
            return ""
        self._reasoning_count += 1
        self._reasoning_size += len(text.encode())
        if self._reasoning_size > MAX_TEXT_BYTES:
            self.exceeded_limit = f"{MAX_TEXT_BYTES} bytes of reasoning"
        self._reasoning.write(text[: max(0, MAX_REASONING_CHARS - self._reasoning.tell())])
        self._note_output(text)
        return text

    def add_refusal(self, text: str) -> None:
        """Add words with which the model refuses to answer."""
        self._refusal.write(well_formed(text)[: max(0, MAX_REFUSAL_CHARS - self._refusal.tell())])
        self._note_output(text)

    def begin_call(self, name: str = "", call_id: str = "") -> PartialCall | None:
        """Begin a call. Return None if the reply has too many, and is truncated."""
        if len(self.calls) >= MAX_REPLY_CALLS:
            self.exceeded_limit = f"{MAX_REPLY_CALLS} calls"
            return None
        self.calls.append(PartialCall(call_id[:MAX_NAME_CHARS], name[:MAX_NAME_CHARS]))
        self._note_output("")
        return self.calls[-1]

    def add_arguments(self, call: PartialCall, text: str) -> None:
        """Add a piece of the arguments of a call."""
        left = MAX_ARGUMENT_CHARS - self._arguments_size
        if len(text) > left:
            self.exceeded_limit = f"{MAX_ARGUMENT_CHARS} characters of arguments"
        self._arguments_size += call.add_arguments(text[:left])
        self._note_output(text)

    def reply(self) -> Reply:
        """Return the reply."""
        now, implied = time.monotonic(), "tool_calls" if self.calls else "stop" if self.is_whole else ""
        return Reply(
            model=self._model,
            finish_reason="length" if self.exceeded_limit else self._finish_reason or implied,
            limit=self.exceeded_limit,
            calls=tuple(call.to_requested_call() for call in self.calls),
            refusal=self._refusal.getvalue(),
            reasoning=self._reasoning.getvalue(),
            provider=self._provider_state(),
            first_token_ms=round(((self._first_token_at or now) - self._started_at) * 1000),
            duration_ms=round((now - self._started_at) * 1000),
        )

    def spent(self, estimated_prompt: int) -> ModelUsage:
        """Return the usage of the request, as far as its reply has arrived. An estimate fills what was not reported."""
        used = self.usage or ModelUsage()
        tokens_out = used.tokens_out or max(self._delta_count, self._estimated_size())
        complete = bool(used.tokens_in and used.tokens_out) or (bool(used.tokens_in) and not tokens_out)
        return ModelUsage(
            used.tokens_in or estimated_prompt,
            tokens_out,
            used.cached_in,
            used.cache_write,
            used.reasoning or min(self.reasoning_tokens, tokens_out),
            used.estimated or not complete,
        )

    def _provider_state(self) -> dict[str, Any]:
        if self._provider_size > MAX_PROVIDER_BYTES:
            return {"left_out": MAX_PROVIDER_BYTES}
        calls = [({"id": call.id} if call.id else {}) | call.provider for call in self.calls]
        state: dict[str, Any] = {"message": self.provider} if self.provider else {}
        state |= {"calls": calls} if any(calls) else {}
        try:
            state = validated_json(state)
        except (ValueError, RecursionError):
            return {}
        return state if len(canonical_json(state).encode()) <= MAX_PROVIDER_BYTES else {"left_out": MAX_PROVIDER_BYTES}

    def _note_output(self, text: str) -> None:
        self._delta_count += 1
        self.may_end = False
        if self._first_token_at is None:
            self._first_token_at = time.monotonic()
        if self.max_tokens is not None and text and self._estimated_size() > self.max_tokens:
            self.exceeded_limit = self.exceeded_limit or f"about {self.max_tokens} output tokens"

    def _estimated_size(self) -> int:
        return estimate_tokens_of_bytes(self._text_size + self._arguments_size + self._reasoning_size)

    def _join_surrogates(self, text: str) -> str:
        """Return the pending half character and the text.

        A half at the end of the text is kept for the next text, unless the reply is whole.
        """
        text = self._pending_surrogate + text
        self._pending_surrogate = "" if self.is_whole or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
        return well_formed(text.removesuffix(self._pending_surrogate))

    def _truncate(self, text: str) -> str:
        """Return the text, truncated if the reply exceeds the limit."""
        size = len(text.encode())
        left = MAX_TEXT_BYTES - self._text_size
        if size > left:
            self.exceeded_limit = f"{MAX_TEXT_BYTES} bytes of text"
            text = text.encode()[:left].decode(errors="ignore")
        self._text_size += min(size, left)
        return text


def merge_field(fields: dict[str, Any], name: str, value: Any) -> None:
    """Add a further piece of a field: texts and lists are continued, objects are joined, anything else is replaced."""
    before = fields.get(name)
    if value is None:
        return
    if isinstance(before, str) and isinstance(value, str):
        fields[name] = before + value
    elif isinstance(before, list) and isinstance(value, list):
        for item in value:
            _merge_item(before, item)
    elif isinstance(before, dict) and isinstance(value, dict):
        for key in value:
            merge_field(before, key, value[key])
    elif isinstance(value, list):
        fields[name] = []
        merge_field(fields, name, value)
    else:
        fields[name] = dict(value) if isinstance(value, dict) else value


def _merge_item(items: list[Any], item: Any) -> None:
    """Continue the last item of a list if this one is a further piece of it, as in OpenRouter's reasoning_details."""
    last = items[-1] if items else None
    same = (
        isinstance(last, dict)
        and isinstance(item, dict)
        and item.get("type") == last.get("type") == "reasoning.text"
        and item.get("index") == last.get("index")
    )
    if not same or not isinstance(last, dict):
        items.append(dict(item) if isinstance(item, dict) else item)
        return
    for key, value in item.items():
        if key == "text":
            merge_field(last, key, value)
        elif value is not None:
            last[key] = value


def _json_size(value: Any) -> int:
    """Return the size of the value as JSON. One that cannot be sent again counts as too large."""
    try:
        return len(json.dumps(value, allow_nan=False))
    except (ValueError, RecursionError):
        return MAX_PROVIDER_BYTES + 1


def short_name(value: str) -> str:
    """Return the beginning of the text, well-formed."""
    return well_formed(value[:MAX_NAME_CHARS])


def token_count(value: object) -> int:
    """Return the count, or 0 if the value is not a count."""
    if isinstance(value, str):
        whole, _, rest = value.strip().partition(".")
        value = int(whole) if whole.isascii() and whole.isdigit() and len(whole) < 19 and not rest.strip("0") else 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKEN_COUNT:
        return MAX_TOKEN_COUNT if isinstance(value, int | float) and value > MAX_TOKEN_COUNT else 0
    return int(value)
