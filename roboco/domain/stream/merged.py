"""The merged stream: both channels as one sequence of items, resumable after every item.

Each message becomes one item. An additional item replaces the follower's text of a step if the follower cannot have the
right one. There are three causes: the text was trimmed from the log, it was lost with Redis, or the committed step
belongs to another attempt.

Order: a message carries the last number of the other channel at its time. Messages of one generation are therefore
ordered by these pairs. A new generation starts at number 1 on both channels. The cursor
keeps its number of steps then, and the history fills the gap.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from roboco.domain.history.part import ToolCallPart, ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import (
    AgentSelected,
    AnyEvent,
    ReasoningChunk,
    StepEnded,
    StreamChunk,
    StreamReset,
    TaskEnded,
    ToolCalled,
    ToolReturned,
    TurnRestarted,
    UnknownEvent,
    parse_stream_message,
)
from roboco.domain.stream.item import (
    ItemData,
    ReasoningDelta,
    StepFinal,
    StreamItem,
    TextPartDelta,
    ToolCallItem,
    ToolResultItem,
    stream_item,
)
from roboco.errors import UsageError

_CURSOR = re.compile(r"([0-9a-f]{0,32})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})(t?)", re.ASCII)
"""The text of a cursor. Clients send it, so its numbers are those that a task can reach."""


@dataclass(frozen=True)
class Cursor:
    """The position of a follower: the last numbers of both channels, and the number of its steps."""

    generation: str = ""
    events: int = 0
    chunks: int = 0
    steps: int = 0
    attempt: int = 1
    attempt_chunks: int = 0
    """The number of chunks of `attempt` that the follower has of the next step."""
    has_full_text: bool = False
    """True if the follower has the full text of the next step from one item."""

    def __str__(self) -> str:
        numbers = f"{self.events}.{self.chunks}.{self.steps}.{self.attempt}.{self.attempt_chunks}"
        return f"{self.generation}.{numbers}{'t' if self.has_full_text else ''}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Return the cursor of its text.

        Raise UsageError if the text is not a cursor.
        """
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise UsageError(f"cursor {text[:80]!r} is not one of a stream item")
        generation, *numbers, whole = match.groups()
        events, chunks, steps, attempt, attempt_chunks = map(int, numbers)
        return cls(generation, events, chunks, steps, attempt, attempt_chunks, whole == "t")

    def has_text_of(self, step: TaskStep) -> bool:
        """Return True if the follower has the full text of the step, of the attempt that became the step."""
        if self.has_full_text or not step.by_agent:
            return True
        if step.text == "" and self.attempt_chunks == 0:
            return True
        return (step.metadata.get("attempt"), step.metadata.get("chunks")) == (self.attempt, self.attempt_chunks)


COMPLETE = "-"
"""The place of a sub-task of which a follower has all items."""
MAX_SUB_PLACES = 100
"""The most sub-tasks of one step whose places are in a cursor."""


MAX_CURSOR_CHARS = 40_000
MAX_CURSOR_DEPTH = 5
"""The depth of teams within teams."""


def split_cursor(text: str, depth: int = MAX_CURSOR_DEPTH) -> list[str]:
    """Return the places in a cursor of a stream with sub-tasks: of the task, and of the sub-tasks of its open calls.

    The place of a sub-task that has open sub-tasks is such a cursor in parentheses, which are left out.
    Raise UsageError if the text is no such cursor.
    """
    pieces, level = [list[str]()], 0
    for char in text if len(text) <= MAX_CURSOR_CHARS and depth >= 0 else ")":
        level += (char == "(") - (char == ")")
        if char == "," and level == 0:
            pieces.append([])
        else:
            pieces[-1].append(char)
    place, *places = ("".join(piece) for piece in pieces)
    if level or len(places) > MAX_SUB_PLACES:
        raise UsageError(f"cursor {text[:80]!r} is not one of a stream item: it has more than {MAX_SUB_PLACES} places")
    Cursor.parse(place)
    places = [one[1:-1] if one.startswith("(") else one for one in places]
    for one in places:
        if one not in ("", COMPLETE):
            split_cursor(one, depth - 1)
    return [place, *places]


ReadSteps = Callable[[int], Iterable[TaskStep]]
"""Reads the history from a position on."""


class MergedStream:
    """Turns messages, in order, into items. It calls `read_steps` only for steps that the messages lack."""

    def __init__(self, cursor: Cursor, read_steps: ReadSteps) -> None:
        self.cursor = cursor
        self._read_steps = read_steps

    def feed(self, record: dict[str, Any]) -> Iterator[StreamItem]:
        """Yield the items of one message. Each message may be fed once."""
        message = parse_stream_message(record)
        if not message.generation and not isinstance(message, StreamChunk):
            yield self._item(_item_data(message))  # it was published without the logs, and has no number
            return
        if message.generation != self.cursor.generation:
            self.cursor = Cursor(
                generation=message.generation, steps=self.cursor.steps, has_full_text=self.cursor.has_full_text
            )
        if isinstance(message, StreamChunk):
            yield self._chunk(message)
        elif isinstance(message, UnknownEvent) and "events" in record:  # of the content channel, but no text
            self._move(chunks=message.seq)
            yield self._item(message)
        else:
            yield from self._event(message)

    def needs_steps(self, record: dict[str, Any]) -> bool:
        """Return True if the message follows steps that the follower lacks: feeding it reads them."""
        match record:
            case {"type": "event_stream_reset", "steps": int(before)}:
                return before > self.cursor.steps
            case {"type": "event_step_end", "step": {"seq": int(before)}}:
                return before > self.cursor.steps
            case {"type": "event_task_end", "usage": {"steps": int(before)}}:
                return before > self.cursor.steps
            case _:
                return False

    def missing_steps(self, until: int | None = None) -> Iterator[StreamItem]:
        """Yield the steps that the follower lacks, before position `until`, each as one text and the step."""
        if until is not None and until <= self.cursor.steps:
            return
        for step in self._read_steps(self.cursor.steps):
            if until is not None and step.seq >= until:
                return
            yield from self._text(step)
            self._reset_next_step(steps=step.seq + 1)
            yield self._item(StepFinal(step=step.shown))

    def _chunk(self, chunk: StreamChunk) -> StreamItem:
        attempt_chunks = self.cursor.attempt_chunks + 1 if chunk.attempt == self.cursor.attempt else 1
        self._move(chunks=chunk.seq, attempt=chunk.attempt, attempt_chunks=attempt_chunks, has_full_text=False)
        kind = ReasoningDelta if isinstance(chunk, ReasoningChunk) else TextPartDelta
        delta = kind(text=chunk.text, step_id=chunk.step_id, agent_name=chunk.agent_name, attempt=chunk.attempt)
        return self._item(delta)

    def _event(self, event: AnyEvent) -> Iterator[StreamItem]:
        self._move(chunks=event.chunks)
        if isinstance(event, StepEnded) and event.step.seq < self.cursor.steps:
            self._move(events=event.seq)
            return
        yield from self._missing_items(event)
        match event:
            case StreamReset() | AgentSelected():
                self._reset_next_step()
            case TurnRestarted():
                self._reset_next_step(attempt=event.attempt)
            case StepEnded():
                self._reset_next_step(steps=event.step.seq + 1)
            case _:
                pass
        self._move(events=event.seq)
        yield self._item(_item_data(event))

    def _missing_items(self, event: AnyEvent) -> Iterator[StreamItem]:
        match event:
            case StreamReset():
                yield from self.missing_steps(event.steps)
            case TaskEnded() if event.usage.get("steps", 0) > self.cursor.steps:
                yield from self.missing_steps()
            case StepEnded():
                yield from self.missing_steps(event.step.seq)
                if not self.cursor.has_text_of(event.step):
                    yield from self._text(event.step)
            case _:
                pass

    def _text(self, step: TaskStep) -> Iterator[StreamItem]:
        """Yield the full text of the step, unless the previous item was this text."""
        if not step.by_agent or self.cursor.has_full_text:
            return
        attempt = step.metadata.get("attempt", 1)
        self._move(attempt=attempt, has_full_text=True)
        delta = TextPartDelta(
            text=step.text, step_id=step.step_id, agent_name=step.agent_name, attempt=attempt, replace=True
        )
        yield self._item(delta)

    def _reset_next_step(self, attempt: int = 1, **changes: Any) -> None:
        """Reset the position in the next step: the follower has none of it."""
        self._move(attempt=attempt, attempt_chunks=0, has_full_text=False, **changes)

    def _move(self, **changes: Any) -> None:
        self.cursor = replace(self.cursor, **changes)

    def _item(self, shown: ItemData) -> StreamItem:
        return stream_item(shown, str(self.cursor))


def _item_data(event: AnyEvent) -> ItemData:
    match event:
        case StepEnded():
            return StepFinal(step=event.step)
        case ToolCalled():
            return ToolCallItem(
                step_id=event.step_id, agent_name=event.agent_name, part=ToolCallPart(tool_call=event.tool_call)
            )
        case ToolReturned():
            return ToolResultItem(tool_name=event.tool_name, part=ToolResultPart(tool_result=event.tool_result))
        case _:
            return event
