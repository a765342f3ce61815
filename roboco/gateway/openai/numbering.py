"""numbering: sequence numbers of a response's events, derived from the counters of the task's logs.

    number = place * 2^24 + detail        place: the number of the newest execution event
    detail of an event   0..4093          its protocol events, in order
    detail of a text     4094, 4095       the message begins, its part begins
                         4096 + n         the n-th character of the message has arrived

No number is stored. Texts are numbered by characters, not by chunks, since the log drops the chunks of a committed
step: a client that has 1,000 characters gets the rest of the committed text, whatever pieces the log holds by then.

After a loss of Redis the logs are numbered from 1 again. Places continue then at 4,096 for each committed step, which
is more than a step has events, so that numbers still rise. Items of steps that the new logs lack may be sent twice.
After a second loss in the same step, the last event of the response may be the only one with the text of that step.
"""

from dataclasses import dataclass
from typing import Final

from roboco.domain.stream.item import StreamItem

_PLACE_BITS: Final = 24
_DETAILS: Final = 1 << _PLACE_BITS
MESSAGE_BEGINS: Final = 4094
PART_BEGINS: Final = 4095
TEXT: Final = 4096
"""The detail before the first character of a message."""
_PLACES_OF_STEP: Final = 4096


@dataclass
class Numbering:
    """The numbers of one reading of a task's stream."""

    last: int = 0
    """The last number that was given."""
    _place: int = 0
    _detail: int = 0
    _base: int = 0

    def move(self, item: StreamItem, events: int, steps: int) -> None:
        """Move to the place of an item, after this number of execution events and committed steps."""
        if item.type == "event_stream_reset":
            self._base = _PLACES_OF_STEP * (item.data.steps + 1)
        base = self._base if events else max(self._base, _PLACES_OF_STEP * (steps + 2) - 1)
        if base + events != self._place:
            self._place, self._detail = base + events, 0

    @property
    def place(self) -> int:
        """The place of the newest item."""
        return self._place

    def of_event(self) -> int:
        """Return the number of the next protocol event of the newest item."""
        number = self._place * _DETAILS + min(self._detail, MESSAGE_BEGINS - 1)
        self._detail += 1
        return self._rising(number)

    def of_text(self, characters: int) -> int:
        """Return the number of a text after which the message has this many characters."""
        return self._rising(self._place * _DETAILS + TEXT + min(characters, _DETAILS - TEXT - 1))

    def of_message(self, place: int, detail: int) -> int:
        """Return the number of the begin of a message whose turn began at this place."""
        return self._rising(place * _DETAILS + detail)

    def _rising(self, number: int) -> int:
        self.last = max(number, self.last + 1)
        return self.last


def characters_of(number: int) -> int:
    """Return the characters of the current message that a client at this number has."""
    return max(0, number % _DETAILS - TEXT)
