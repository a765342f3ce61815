"""Assembly: a reply put together from the deltas of a stream.

All text that leaves it is well-formed. JSON escapes a character beyond U+FFFF as two halves (surrogates), and a server
that cuts its text anywhere sends them in two deltas: such halves are joined, and a lone one becomes U+FFFD.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.canonical import well_formed
from roboco.errors import ModelError
from roboco.ports import Reply, RequestedCall

MOST_HELD = 1_000_000
"""Characters of an answer that is held back until it is whole."""


MOST_TOKENS = 1_000_000_000
"""A count of tokens beyond it is taken for this many: sums of counts stay in 64 bits."""


@dataclass
class _Call:
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def requested(self) -> RequestedCall:
        """The call as the model wrote it."""
        return RequestedCall(well_formed("".join(self.name)), well_formed("".join(self.arguments)))


class Assembly:
    """What came of one model call so far. Calls are told apart by their index, or by a new id without one."""

    def __init__(self, model: str) -> None:
        self._started = time.monotonic()
        self._first: float | None = None
        self._model = model
        self._finish_reason = ""
        self._calls: dict[int, _Call] = {}
        self._ids: set[str] = set()
        self._tokens = (0, 0)
        self._pieces = 0
        self._half = ""
        self._held: list[str] = []
        self._held_size = 0

    @property
    def begun(self) -> bool:
        """Whether anything of the answer has come."""
        return self._first is not None

    @property
    def finished(self) -> bool:
        """Whether the model said that its answer is complete."""
        return self._finish_reason != ""

    @property
    def held(self) -> str:
        """The text that was held back."""
        return "".join(self._held)

    @property
    def cut_off(self) -> bool:
        """Whether the answer ended at its limit of tokens."""
        return self._finish_reason == "length"

    def hold(self, text: str) -> None:
        """Keep the text back; ModelError once it is more than anybody would read as an answer."""
        self._held.append(text)
        self._held_size += len(text)
        if self._held_size > MOST_HELD:
            message = f"model {self._model!r} answered with more than {MOST_HELD} characters where JSON was asked for"
            raise ModelError("too_long", message, False)

    def take(self, chunk: Any) -> str:
        """Take one chunk in, of which nothing was checked: the text that it brings.

        TypeError, AttributeError or LookupError for what is no chunk.
        """
        self._model = well_formed(_text(chunk.get("model"))) or self._model
        if isinstance(usage := chunk.get("usage"), dict):
            self._tokens = (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
        if not (choices := chunk.get("choices")):
            return ""
        choice = choices[0]
        self._finish_reason = well_formed(_text(choice.get("finish_reason"))) or self._finish_reason
        delta = choice.get("delta") or {}
        calls = delta.get("tool_calls") or []
        for call in calls:
            self._take_call(call)
        text = self._joined(_text(delta.get("content")))
        if text or calls:
            self._pieces += 1
            self._first = self._first or time.monotonic()
        return text

    def reply(self) -> Reply:
        """The whole reply; without reported usage the tokens out are the pieces that came."""
        now = time.monotonic()
        tokens_in, tokens_out = self._tokens
        return Reply(
            model=self._model,
            finish_reason=self._finish_reason,
            calls=tuple(self._calls[place].requested() for place in sorted(self._calls)),
            tokens_in=tokens_in,
            tokens_out=tokens_out or self._pieces,
            first_token_ms=round(((self._first or now) - self._started) * 1000),
            duration_ms=round((now - self._started) * 1000),
        )

    def _joined(self, text: str) -> str:
        """The text after the half that was kept; a half at its end is kept for the next text, if one may come."""
        text = self._half + text
        self._half = "" if self.finished or not "\ud800" <= text[-1:] <= "\udbff" else text[-1]
        return well_formed(text.removesuffix(self._half))

    def _take_call(self, delta: Any) -> None:
        call = self._calls.setdefault(self._place(delta.get("index"), delta.get("id")), _Call())
        if (function := delta.get("function")) is not None:
            call.name.append(_text(function.get("name")))
            call.arguments.append(_text(function.get("arguments")))

    def _place(self, index: Any, call_id: Any) -> int:
        """The call's index; where a server sends none, a new id begins a new call."""
        fresh = call_id is not None and call_id not in self._ids
        if call_id is not None:
            self._ids.add(call_id)
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        return len(self._calls) if fresh or not self._calls else max(self._calls)


def _text(value: object) -> str:
    """The text, if there is one."""
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"a text was to come, not {value!r:.100}")


def _count(value: object) -> int:
    """The count; 0 for what is none."""
    count: int = value if isinstance(value, int) and not isinstance(value, bool) else 0
    return min(max(count, 0), MOST_TOKENS)
