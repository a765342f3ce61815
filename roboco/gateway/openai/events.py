"""events: the events of a streamed response, their sequence numbers, and those that a client lacks.

    number = place * 2^24 + detail      place: that of the item in the logs, the events and chunks so far
                                        detail: the events of the item before
    number of a text delta              place: that of the event with which its turn began
                                        detail: 1,024 + the characters of the message so far

No number is stored. Texts count characters, since the log drops the chunks of a committed step: a client that has 1,000
characters gets the rest of the committed text, whatever pieces the log holds by then. After a loss of Redis places
restart: a client that resumes then gets at least the last event, which has the whole response.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

_DETAILS: Final = 1 << 24
TEXT: Final = 1024
"""The detail before the first character of a message: more than an item has events."""


@dataclass(frozen=True)
class ResponseEvent:
    """An event of the stream."""

    number: int
    type: str
    fields: dict[str, Any]
    terminal: bool = False
    """True for the last event of the response."""
    void: bool = False
    """True for the end of a message whose turn restarts: it is not in the output."""

    def document(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"type": self.type, "sequence_number": self.number, **self.fields}


@dataclass
class EventNumbers:
    """The numbers of one reading of a task's stream. `place` is that of the newest item."""

    place: int = 0
    _last: int = -1

    def take(self, place: int | None = None, detail: int = 0) -> int:
        """Return the number of the next event, at this place or that of the newest item. Numbers rise."""
        at = self.place if place is None else place
        self._last = max(at * _DETAILS + min(detail, _DETAILS - 1), self._last + 1)
        return self._last


def events_after(events: Iterable[ResponseEvent], number: int | None) -> Iterator[ResponseEvent]:
    """Yield the events that a client lacks whose last event has this number; None for a client without any.

    Of a text delta it gets the characters that it lacks: the delta of a committed step may be the whole text.
    """
    for event in events:
        lacking = event.number + 1 if number is None else event.number - number
        if 0 < lacking < _characters_of(event):
            yield replace(event, fields=event.fields | {"delta": event.fields["delta"][-lacking:]})
        elif lacking > 0 or event.terminal:
            yield event


def _characters_of(event: ResponseEvent) -> int:
    """Return the characters that the number of an event counts."""
    length = len(event.fields["delta"]) if event.type == "response.output_text.delta" else 0
    return length if event.number % _DETAILS - length >= TEXT else 0
