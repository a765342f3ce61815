"""View: both channels merged into what a client shows, resumable after every item.

Each message becomes one item; only text that a follower cannot have (it was trimmed from the log, lost with
Redis, or the turn's step turned out to be another attempt's) adds one, which replaces what the follower holds.
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
    StepEnded,
    StreamChunk,
    StreamReset,
    TaskEnded,
    ToolCalled,
    ToolReturned,
    TurnRestarted,
    UnknownEvent,
    read_message,
)
from roboco.domain.stream.item import (
    Shown,
    StepFinal,
    StreamItem,
    TextPartDelta,
    ToolCallItem,
    ToolResultItem,
    stream_item,
)
from roboco.errors import UsageError

_CURSOR = re.compile(r"([0-9a-f]*)\.(\d+)\.(\d+)\.(\d+)\.(\d+)\.(\d+)(t?)")


@dataclass(frozen=True)
class Cursor:
    """Where a follower is: the last numbers of both channels, and the number of steps that it has.

    Of the step to come it holds `pieces` chunks of `attempt`, or, with `whole`, all of its text at once.
    """

    generation: str = ""
    events: int = 0
    chunks: int = 0
    steps: int = 0
    attempt: int = 1
    pieces: int = 0
    whole: bool = False

    def __str__(self) -> str:
        numbers = f"{self.events}.{self.chunks}.{self.steps}.{self.attempt}.{self.pieces}"
        return f"{self.generation}.{numbers}{'t' if self.whole else ''}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The cursor of its text; UsageError if it is none."""
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise UsageError(f"cursor {text[:80]!r} is none that an item of a stream carried")
        generation, *numbers, whole = match.groups()
        events, chunks, steps, attempt, pieces = map(int, numbers)
        return cls(generation, events, chunks, steps, attempt, pieces, whole == "t")

    def with_text_of(self, step: TaskStep) -> bool:
        """Whether the follower holds all of the step's text, of the attempt that became the step."""
        if self.whole or not step.by_agent:
            return True
        if step.text == "" and self.pieces == 0:
            return True
        return (step.metadata.get("attempt"), step.metadata.get("chunks")) == (self.attempt, self.pieces)


ReadSteps = Callable[[int], Iterable[TaskStep]]
"""Reads the history from a position on."""


class View:
    """Turns messages, in order, into items. `read_steps` is asked only for what the messages lack."""

    def __init__(self, cursor: Cursor, read_steps: ReadSteps) -> None:
        self.cursor = cursor
        self._read_steps = read_steps

    def take(self, record: dict[str, Any]) -> Iterator[StreamItem]:
        """The items of one message, which was not taken before."""
        message = read_message(record)
        if not message.generation and not isinstance(message, StreamChunk):
            yield self._item(_shown(message))  # it was announced beside the logs, and has no place in them
            return
        if message.generation != self.cursor.generation:
            self.cursor = Cursor(generation=message.generation, steps=self.cursor.steps, whole=self.cursor.whole)
        if isinstance(message, StreamChunk):
            yield self._chunk(message)
        elif isinstance(message, UnknownEvent) and "events" in record:  # of the content channel, but no text
            self._move(chunks=message.seq)
            yield self._item(message)
        else:
            yield from self._event(message)

    def lacks_steps(self, record: dict[str, Any]) -> bool:
        """Whether the message comes after steps that the follower lacks: to take it is to read them."""
        match record:
            case {"type": "event_stream_reset", "steps": int(before)}:
                return before > self.cursor.steps
            case {"type": "event_step_end", "step": {"seq": int(before)}}:
                return before > self.cursor.steps
            case {"type": "event_task_end", "usage": {"steps": int(before)}}:
                return before > self.cursor.steps
            case _:
                return False

    def from_history(self, until: int | None = None) -> Iterator[StreamItem]:
        """The steps that the follower lacks, before position `until`, each as one text and the step."""
        if until is not None and until <= self.cursor.steps:
            return
        for step in self._read_steps(self.cursor.steps):
            if until is not None and step.seq >= until:
                return
            yield from self._text(step)
            self._next(steps=step.seq + 1)
            yield self._item(StepFinal(step=step))

    def _chunk(self, chunk: StreamChunk) -> StreamItem:
        pieces = self.cursor.pieces + 1 if chunk.attempt == self.cursor.attempt else 1
        self._move(chunks=chunk.seq, attempt=chunk.attempt, pieces=pieces, whole=False)
        delta = TextPartDelta(
            text=chunk.text, step_id=chunk.step_id, agent_name=chunk.agent_name, attempt=chunk.attempt
        )
        return self._item(delta)

    def _event(self, event: AnyEvent) -> Iterator[StreamItem]:
        self._move(chunks=event.chunks)
        if isinstance(event, StepEnded) and event.step.seq < self.cursor.steps:
            self._move(events=event.seq)
            return
        yield from self._lacking(event)
        match event:
            case StreamReset() | AgentSelected():
                self._next()
            case TurnRestarted():
                self._next(attempt=event.attempt)
            case StepEnded():
                self._next(steps=event.step.seq + 1)
            case _:
                pass
        self._move(events=event.seq)
        yield self._item(_shown(event))

    def _lacking(self, event: AnyEvent) -> Iterator[StreamItem]:
        """What must come before the event and has not come yet."""
        match event:
            case StreamReset():
                yield from self.from_history(event.steps)
            case TaskEnded() if event.usage.get("steps", 0) > self.cursor.steps:
                yield from self.from_history()
            case StepEnded():
                yield from self.from_history(event.step.seq)
                if not self.cursor.with_text_of(event.step):
                    yield from self._text(event.step)
            case _:
                pass

    def _text(self, step: TaskStep) -> Iterator[StreamItem]:
        """The whole text of the step, unless that was what came last."""
        if not step.by_agent or self.cursor.whole:
            return
        attempt = step.metadata.get("attempt", 1)
        self._move(attempt=attempt, whole=True)
        delta = TextPartDelta(
            text=step.text, step_id=step.step_id, agent_name=step.agent_name, attempt=attempt, replace=True
        )
        yield self._item(delta)

    def _next(self, attempt: int = 1, **changes: Any) -> None:
        """Nothing of the step to come is held yet."""
        self._move(attempt=attempt, pieces=0, whole=False, **changes)

    def _move(self, **changes: Any) -> None:
        self.cursor = replace(self.cursor, **changes)

    def _item(self, shown: Shown) -> StreamItem:
        return stream_item(shown, str(self.cursor))


def _shown(event: AnyEvent) -> Shown:
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
