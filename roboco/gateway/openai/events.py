"""events: the events of a streamed response, and the part of them that a client lacks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from roboco.gateway.openai.numbering import characters_of


@dataclass(frozen=True)
class DeltaSpan:
    """The place of a text delta in its message."""

    message_begins: int
    """The sequence number with which the message begins."""
    start: int
    """The characters of the message before the delta."""


@dataclass(frozen=True)
class ResponseEvent:
    """An event of the stream."""

    number: int
    type: str
    fields: dict[str, Any]
    span: DeltaSpan | None = None
    """The place of a text delta; None for any other event."""
    terminal: bool = False
    """True for the last event of the response."""

    def document(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"type": self.type, "sequence_number": self.number, **self.fields}


def events_after(events: Iterable[ResponseEvent], number: int | None) -> Iterator[ResponseEvent]:
    """Yield the events that a client lacks whose last event has this number; None for a client without any.

    Of a text delta it gets the characters that it lacks: the delta of a committed step may be the whole text. The last
    event is always sent.
    """
    for event in events:
        if number is None or event.terminal:
            yield event
        elif event.number > number:
            yield _rest_of(event, number)


def _rest_of(event: ResponseEvent, number: int) -> ResponseEvent:
    if event.span is None or number < event.span.message_begins:
        return event
    known = characters_of(number) - event.span.start
    return event if known <= 0 else replace(event, fields=event.fields | {"delta": event.fields["delta"][known:]})
