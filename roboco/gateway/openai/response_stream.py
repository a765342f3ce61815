"""response_stream: translate the stream of a task into the events of one response. Pure: no I/O, no clock.

    StreamItem ─► before the response: only the steps are counted
               ─► its first step:      created, queued
               ─► turns, texts, steps: in_progress, output items
               ─► the task waits/ends: completed, incomplete or failed

The same log leads to the same events with the same numbers on every gateway, so a cut stream resumes on any of them.
A text is void if its turn restarts: its message is closed as incomplete, and is not in the output of the response.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import StatusChanged
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.domain.usage import Usage
from roboco.gateway.openai.events import EventNumbers, ResponseEvent
from roboco.gateway.openai.messages import Messages
from roboco.gateway.openai.outputs import (
    OutputItem,
    approval_item,
    function_call_item,
    is_answer,
    message_status,
    total_usage,
    typed_answer,
    value_text,
)
from roboco.gateway.openai.response_object import (
    ResponseHead,
    ResponseOrigin,
    checked_form,
    origin_of,
    response_object,
)
from roboco.gateway.openai.segment import (
    ResponseStatus,
    Settled,
    begins_response,
    is_partly_answered,
    settled_before,
    settled_by,
)
from roboco.gateway.openai.tools import arguments_json, function_calls

_ACTIVITY: Final = ("tool_result_part", "event_tool_unknown", "event_sub_task", "event_agent_select", "event_task_end")
"""Items that show that a waiting task continues, before its next step."""
_TERMINAL: Final = {"completed": "completed", "failed": "failed", "incomplete": "incomplete", "cancelled": "incomplete"}
"""The last event by the status of the response: OpenAI has no event for a cancelled one."""


@dataclass(frozen=True)
class ResponseStart:
    """The first step of a response: by its position, or by the message that it applies."""

    position: int = 0
    item_id: str | None = None
    before: TaskStep | None = None
    """The step before it, if the stream begins while the task waits after that step."""
    unknown: frozenset[str] = frozenset()
    """The calls of that step with an unknown outcome for which the task waits still."""
    amid_calls: bool = False
    """True if the task works on calls of that step: one of these may return, or make it wait, before the first step."""


class ResponseStream:
    """Translates the items of a task, from any position before the response, into its events."""

    def __init__(self, head: ResponseHead, start: ResponseStart) -> None:
        self.head = head
        self._start = start
        self._numbers = EventNumbers()
        self._messages = Messages(self._numbers, head.task_id)
        self._last = start.before
        self._rested = start.before is not None or start.amid_calls
        self._origin: ResponseOrigin | None = None
        self._steps: list[TaskStep] = []
        self._output: list[OutputItem] = []
        self._unknown: set[str] = {*start.unknown}
        self._working = False
        self.settled: Settled | None = None
        """The end of the response, once the last event was returned."""
        self.result: dict[str, Any] = {}
        """The response, as of its latest event that holds it."""

    @property
    def finished(self) -> bool:
        """True once the last event was returned."""
        return self.settled is not None

    @property
    def usage(self) -> Usage:
        """The usage of the response's steps."""
        return total_usage(self._steps)

    def feed(self, item: StreamItem) -> list[ResponseEvent]:
        """Return the events of an item. Each item is fed once, in order."""
        if self.finished:
            return []
        at = Cursor.parse(item.cursor)
        self._numbers.place = at.events + at.chunks
        if not self._is_typed:
            self._messages.chunks = at.chunks
        if self._origin is None and not self._begins_with(item):
            return []
        return list(self._events(item))

    @property
    def _is_typed(self) -> bool:
        """True if only the last agent's value is shown, once the response has it: no text of a turn is."""
        return self._origin is not None and self._origin.schema is not None

    @property
    def _committed(self) -> int:
        return 0 if self._last is None else self._last.seq + 1

    def _begins_with(self, item: StreamItem) -> bool:
        """Note the item, and return True if it is the first one of the response."""
        if item.type == "step_final" and self._is_first(item.data.step):
            self._origin = origin_of(item.data.step)
            return True
        if item.type == "step_final":
            self._last = item.data.step
        if self._last is None or self._start.item_id is not None or self._committed != self._start.position:
            return False
        waits = item.type == "event_status" and item.data.status.waiting
        if self._rested and (waits or item.type in _ACTIVITY):
            self._origin = ResponseOrigin(self._start.position, self._last.created_at)
            return True
        self._rested = self._rested or waits
        return False

    def _is_first(self, step: TaskStep) -> bool:
        if self._start.item_id is not None:
            return step.metadata.get("item_id") == self._start.item_id
        return step.seq == self._start.position

    def _events(self, item: StreamItem) -> Iterator[ResponseEvent]:
        if not self.result:
            yield self._lifecycle("created", "queued")
            yield self._lifecycle("queued", "queued")
        if item.type in ("event_agent_select", "text_part_delta", "tool_result_part") and not self._working:
            self._working = True
            yield self._lifecycle("in_progress", "in_progress")
        match item.type:
            case "text_part_delta" if not self._is_typed:
                yield from self._messages.add(item.data)
            case "step_final":
                yield from self._step(item.data.step)
            case "event_status":
                yield from self._status(item.data)
            case "event_tool_unknown":
                self._unknown.add(item.data.tool_call_id)
            case "event_task_end" if self._last is not None:
                yield from self._settle(settled_by(item.data.status, item.data.reason, self._last, False))
            case _:
                yield from self._messages.follow(item)

    def _step(self, step: TaskStep) -> Iterator[ResponseEvent]:
        before = self._last if self._steps else None
        if before is not None and begins_response(step, before):
            yield from self._settle(settled_before(before))
            return
        if not self._steps and self._origin is not None and step.seq == self._origin.position:
            self._origin = origin_of(step)
        self._last = step
        self._steps.append(step)
        if not is_answer(step):
            return
        if not self._is_typed:
            yield from self._message(step, step.text)
        for call in function_calls(step):
            yield from self._function_call(call)

    def _message(self, step: TaskStep, text: str) -> Iterator[ResponseEvent]:
        status, attempt = message_status(step), int(step.metadata.get("attempt", 1))
        yield from self._messages.commit(step.step_id, attempt, text, status)
        if text:
            self._output.append(self._messages.committed_item(step.step_id, attempt, text, status))

    def _function_call(self, call: ToolCall) -> Iterator[ResponseEvent]:
        task_id, arguments = self.head.task_id, arguments_json(call)
        begun = function_call_item(call, task_id, "", "in_progress")
        done = function_call_item(call, task_id, arguments, "completed")
        at = {"item_id": begun["id"], "output_index": self._messages.index}
        yield self._event("output_item.added", {"output_index": at["output_index"], "item": begun})
        yield self._event("function_call_arguments.delta", at | {"delta": arguments})
        yield self._event("function_call_arguments.done", at | {"arguments": arguments, "name": begun["name"]})
        yield from self._done(done)

    def _status(self, change: StatusChanged) -> Iterator[ResponseEvent]:
        if self._last is None or not change.status.waiting:
            return
        changed = {one.call_id for one in change.changes}
        asked = [call for call in self._last.calls if call.id in change.calls]
        unknown = any(call.id in self._unknown and call.id not in changed for call in asked)
        if not self._start.amid_calls and is_partly_answered(change, bool(self._steps), unknown):
            return
        settled = settled_by(change.status, change.reason, self._last, unknown)
        if settled is not None and change.status == "approval" and not unknown:
            for call in asked:
                item = approval_item(call, self.head.task_id)
                yield self._event("output_item.added", {"output_index": self._messages.index, "item": item})
                yield from self._done(item)
        yield from self._settle(settled)

    def _done(self, item: OutputItem) -> Iterator[ResponseEvent]:
        self._output.append(item)
        yield self._event("output_item.done", {"output_index": self._messages.index, "item": item})
        self._messages.index += 1

    def _settle(self, settled: Settled | None) -> Iterator[ResponseEvent]:
        """Yield the last event, if the response has ended."""
        if settled is None:
            return
        if self._is_typed and (answer := typed_answer(self._steps)) is not None:
            yield from self._message(answer, value_text(answer))
        yield from self._messages.restart()
        if self._origin is not None:
            settled = checked_form(settled, self._origin, self._output)
        self.settled = settled
        yield self._lifecycle(_TERMINAL[settled.status], settled)

    def _lifecycle(self, kind: str, state: ResponseStatus | Settled) -> ResponseEvent:
        assert self._origin is not None
        ended = isinstance(state, Settled)
        settled = state if isinstance(state, Settled) else Settled(state)
        usage = self.usage if ended else None
        changed_at = self._last.created_at if ended and self._last is not None else None
        self.result = response_object(self.head, self._origin, settled, self._output, usage, changed_at)
        number = self._numbers.take()
        return ResponseEvent(number, f"response.{kind}", {"response": self.result}, terminal=ended)

    def _event(self, kind: str, fields: dict[str, Any]) -> ResponseEvent:
        return ResponseEvent(self._numbers.take(), f"response.{kind}", fields)
