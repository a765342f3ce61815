"""attempt: the running attempt at an agent's turn, as a reader of the stream knows it."""

from dataclasses import dataclass

from roboco.domain.stream.item import StreamItem, TextPartDelta


@dataclass
class Attempt:
    """The attempt whose text arrives, from the event with which it began."""

    step_id: str = ""
    """The step to which the turn leads; "" while no turn runs."""
    number: int = 1
    place: int = 0
    """The place of the event with which it began, as its reader counts places."""
    chunks: int = 0
    """The chunks in the log before it."""
    chunks_now: int = 0
    """The chunks in the log up to the newest item."""

    def follow(self, item: StreamItem, place: int) -> None:
        """Begin another attempt, or end the turn, if the item says so."""
        match item.type:
            case "event_agent_select":
                self._begin(item.data.step_id, 1, place)
            case "event_turn_restart":
                self._begin(item.data.step_id, item.data.attempt, place)
            case "event_stream_reset":
                self._begin("", 1, place)
            case _:
                pass

    def end(self) -> None:
        """End the turn: its step is committed."""
        self.step_id = ""

    def had_text(self) -> bool:
        """Return True if the attempt has text, even if the log holds it no more."""
        return self.step_id != "" and self.chunks_now > self.chunks

    def is_of(self, delta: TextPartDelta) -> bool:
        """Return True if the text is of this attempt."""
        return (delta.step_id, delta.attempt) == (self.step_id, self.number)

    def lacks_begin(self, delta: TextPartDelta) -> bool:
        """Return True if the log holds the chunks before this one no more. Its committed text follows as a whole."""
        return self.is_of(delta) and not delta.replace and self.chunks_now != self.chunks + 1

    def _begin(self, step_id: str, number: int, place: int) -> None:
        self.step_id, self.number, self.place, self.chunks = step_id, number, place, self.chunks_now
