"""events: the events of a streamed response, their sequence numbers, and those that a client lacks.

    number = place of the item * 1,024 + events of the item before        place: the events and chunks of the log so far

No number is stored. A message begins at the place of its turn. So if the log holds its chunks no more, a client that
has some of them gets the text with the end of the message, and any other client as one delta. After a loss of Redis
places begin anew: a client that resumes then gets at least the last event, which has the whole response.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_EVENTS_OF_ITEM: Final = 1024


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

    def take(self, place: int | None = None) -> int:
        """Return the number of the next event, at this place or that of the newest item. Numbers rise."""
        at = self.place if place is None else place
        self._last = max(at * _EVENTS_OF_ITEM, self._last + 1)
        return self._last


def events_after(events: Iterable[ResponseEvent], number: int | None) -> Iterator[ResponseEvent]:
    """Yield the events that a client lacks whose last event has this number; None for a client without any."""
    return (event for event in events if number is None or event.number > number or event.terminal)
