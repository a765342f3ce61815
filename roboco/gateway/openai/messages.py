"""messages: the running attempt at an agent's turn, and the events of its message.

Texts arrive, restart and are committed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from roboco.domain.stream.item import StreamItem, TextPartDelta
from roboco.gateway.openai.events import TEXT, EventNumbers, ResponseEvent
from roboco.gateway.openai.ids import message_item_id
from roboco.gateway.openai.outputs import OutputItem, message_item, text_part


@dataclass(frozen=True)
class _Attempt:
    """The attempt whose text arrives, from the event with which it began."""

    step_id: str = ""
    """The step to which the turn leads; "" while no turn runs."""
    number: int = 1
    place: int = 0
    """The place of that event, as its reader counts places."""
    chunks: int = 0
    """The chunks in the log before it."""


@dataclass
class _Message:
    """A message whose text arrives."""

    step_id: str
    attempt: int
    item_id: str
    index: int
    pieces: list[str] = field(default_factory=list)
    length: int = 0

    @property
    def text(self) -> str:
        """The text so far. Cost: its length."""
        return "".join(self.pieces)


@dataclass
class Messages:
    """The messages of one response, at most one of them open. `index` is the output index of the next item."""

    numbers: EventNumbers
    task_id: str
    index: int = 0
    chunks: int = 0
    """The chunks in the log up to the newest item."""
    _attempt: _Attempt = _Attempt()
    _open: _Message | None = None
    _void: dict[tuple[str, int], int] = field(default_factory=dict)

    def follow(self, item: StreamItem) -> Iterator[ResponseEvent]:
        """Yield the events of an item about the attempts at a turn: the message of an earlier attempt is void."""
        match item.type:
            case "event_agent_select":
                step_id, number = item.data.step_id, 1
            case "event_turn_restart":
                step_id, number = item.data.step_id, item.data.attempt
            case "event_stream_reset":
                step_id, number = "", 1
            case _:
                return
        yield from self.restart() if step_id else self.void()
        self._attempt = _Attempt(step_id, number, self.numbers.place, self.chunks)

    def add(self, delta: TextPartDelta) -> Iterator[ResponseEvent]:
        """Yield the events of a piece of text, or of the whole text of a message.

        If the log holds the chunks before a piece no more, its committed text follows as a whole.
        """
        is_running = (delta.step_id, delta.attempt) == (self._attempt.step_id, self._attempt.number)
        lacks_begin = is_running and not delta.replace and self.chunks != self._attempt.chunks + 1
        if self._open is not None and not _continues(self._open, delta):
            yield from self.void()
        elif delta.replace and not is_running:
            yield from self._void_unseen()  # the step of an earlier attempt replaces the running one
        if not delta.text or (self._open is None and lacks_begin):
            return
        if self._open is None:
            yield from self._begin(delta.step_id, delta.attempt)
        message = self._open
        if message is not None:
            text = delta.text[message.length :] if delta.replace else delta.text
            yield from self._append(message, text)

    def restart(self) -> Iterator[ResponseEvent]:
        """Yield the events that close the message of an attempt that is void, if it had text.

        The log may hold its text no more. The events of its begin and end follow nevertheless, so that the indexes of
        later items are those that other readers have seen.
        """
        yield from self._void_unseen()
        yield from self.void()

    def void(self) -> Iterator[ResponseEvent]:
        """Yield the events that close the open message as incomplete, if there is one. It is not part of the output."""
        if (message := self._open) is not None:
            key = (message.step_id, message.attempt)
            self._void[key] = self._void.get(key, 0) + 1
            *events, last = self._close("incomplete")
            yield from (*events, replace(last, void=True))

    def commit(self, step_id: str, attempt: int, text: str, status: str) -> Iterator[ResponseEvent]:
        """Yield the events that complete the message of a committed step, if the step has text."""
        whole = TextPartDelta(text=text, step_id=step_id, agent_name="", attempt=attempt, replace=True)
        yield from self.add(whole)
        if text:
            yield from self._close(status)
        self._attempt = replace(self._attempt, step_id="")

    def committed_item(self, step_id: str, attempt: int, text: str, status: str) -> OutputItem:
        """Return the output item of a committed text."""
        return message_item(self._item_id(step_id, attempt), text, status)

    def _void_unseen(self) -> Iterator[ResponseEvent]:
        """Yield the events of a void message whose text the log holds no more, if the attempt had text."""
        attempt = self._attempt
        if self._open is None and attempt.step_id and self.chunks > attempt.chunks:
            yield from self._begin(attempt.step_id, attempt.number)
            yield from self.void()

    def _item_id(self, step_id: str, attempt: int) -> str:
        return message_item_id(self.task_id, step_id, attempt, self._void.get((step_id, attempt), 0))

    def _begin(self, step_id: str, attempt: int) -> Iterator[ResponseEvent]:
        message = _Message(step_id, attempt, self._item_id(step_id, attempt), self.index)
        self._open = message
        self.index += 1
        item, place = message_item(message.item_id, None, "in_progress"), self._attempt.place
        yield self._event("output_item.added", {"output_index": message.index, "item": item}, place)
        yield self._event("content_part.added", _at(message) | {"part": text_part("")}, place)

    def _append(self, message: _Message, text: str) -> Iterator[ResponseEvent]:
        if text:
            message.pieces.append(text)
            message.length += len(text)
            number = self.numbers.take(self._attempt.place, TEXT + message.length)
            fields = _at(message) | {"delta": text, "logprobs": []}
            yield ResponseEvent(number, "response.output_text.delta", fields)

    def _close(self, status: str) -> Iterator[ResponseEvent]:
        message = self._open
        if message is None:
            return
        self._open = None
        at, text = _at(message), message.text
        yield self._event("output_text.done", at | {"text": text, "logprobs": []})
        yield self._event("content_part.done", at | {"part": text_part(text)})
        item = message_item(message.item_id, text, status)
        yield self._event("output_item.done", {"output_index": message.index, "item": item})

    def _event(self, kind: str, fields: dict[str, Any], place: int | None = None) -> ResponseEvent:
        return ResponseEvent(self.numbers.take(place), f"response.{kind}", fields)


def _at(message: _Message) -> dict[str, Any]:
    return {"item_id": message.item_id, "output_index": message.index, "content_index": 0}


def _continues(message: _Message, delta: TextPartDelta) -> bool:
    """Return True if the piece, or the whole text, continues the message."""
    if (message.step_id, message.attempt) != (delta.step_id, delta.attempt):
        return False
    return not delta.replace or delta.text.startswith(message.text)
