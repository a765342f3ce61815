"""chat_stream: translate the stream of a task into the chunks of one chat completion. Pure: no I/O, no clock.

    StreamItem ─► pieces of text ─► delta.content      the texts of all agents, a blank line apart
               ─► calls of the client's functions ─► delta.tool_calls
               ─► the task waits/ends ─► finish_reason, or an error

A chat completion cannot take back text. If a turn restarts, the new text is held back until it exceeds the text that
was sent. If it differs, the stream ends with an error, and the caller asks again: with the same `Idempotency-Key` it
gets the answer of the same task, complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from roboco.domain.history.step import TaskStep
from roboco.domain.stream.item import StreamItem, TextPartDelta
from roboco.domain.stream.merged import Cursor
from roboco.domain.usage import Usage
from roboco.gateway.openai.attempt import Attempt
from roboco.gateway.openai.ids import shown_call_id
from roboco.gateway.openai.outputs import is_answer, total_usage
from roboco.gateway.openai.segment import Settled, begins_response, is_partly_answered, settled_before, settled_by
from roboco.gateway.openai.tools import arguments_json, function_calls, function_name
from roboco.gateway.problem import Problem

SEPARATOR: Final = "\n\n"
"""Between the texts of two turns."""


@dataclass
class _TurnText:
    """The text of a turn that was sent before the commit of its step. The cost of a piece is that of its length."""

    step_id: str = ""
    attempt: int = 0
    sent: list[str] = field(default_factory=list)
    repeated: str = ""
    """The text that an earlier attempt has sent."""
    matched: int = 0
    """The characters of it that this attempt has repeated."""

    def is_of(self, delta: TextPartDelta) -> bool:
        """Return True if the piece belongs to this attempt."""
        return (self.step_id, self.attempt) == (delta.step_id, delta.attempt)

    def restart(self, delta: TextPartDelta) -> None:
        """Begin another attempt, or the same one from its first character."""
        self.step_id, self.attempt = delta.step_id, delta.attempt
        self.repeated, self.matched = "".join(self.sent), 0

    def add(self, text: str) -> str | None:
        """Return the part of a piece that was not sent, or None if it differs from the text that was sent."""
        again = self.repeated[self.matched : self.matched + len(text)]
        if not text.startswith(again):
            return None
        self.matched += len(again)
        rest = text[len(again) :]
        self.sent.extend([rest] if rest else [])
        return rest

    def commit(self, text: str) -> str | None:
        """Return the part of the committed text that was not sent, or None if they differ. The turn ends."""
        sent = "".join(self.sent)
        if not text.startswith(sent):
            return None
        self.sent, self.repeated, self.step_id = [], "", ""
        return text[len(sent) :]


@dataclass
class ChatStream:
    """Translates the items of a task into the pieces of the answer to the step at `position`.

    The stream begins with the task, or, with `begun`, while the task waits for that step.
    """

    task_id: str
    """The task, as the caller names it."""
    position: int
    last: TaskStep | None = None
    """The newest step."""
    begun: bool = False
    """True once the first step of the answer is next, or was seen."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = ""
    """The reason of the end, once the answer has ended without a problem."""
    problem: Problem | None = None
    """The cause of an end without a whole answer."""
    _steps: list[TaskStep] = field(default_factory=list)
    _content: list[str] = field(default_factory=list)
    """The pieces that were sent."""
    _running: Attempt = field(default_factory=Attempt)
    _text: _TurnText = field(default_factory=_TurnText)
    _unknown: bool = False
    """True if the outcome of a call is unknown."""
    _in_turn: bool = False
    """True if text of the running turn was sent."""

    @property
    def finished(self) -> bool:
        """True once the answer has ended."""
        return self.finish_reason != "" or self.problem is not None

    @property
    def content(self) -> str:
        """The text that was sent."""
        return "".join(self._content)

    @property
    def usage(self) -> Usage:
        """The usage of the answer's steps."""
        return total_usage(self._steps)

    def feed(self, item: StreamItem) -> Iterator[dict[str, Any]]:
        """Yield the `delta` of each chunk of an item. Each item is fed once, in order."""
        if self.finished:
            return
        self._running.chunks_now = Cursor.parse(item.cursor).chunks
        self._running.follow(item)
        self.begun = self.begun or self._begins_with(item)
        if not self.begun:
            return
        match item.type:
            case "text_part_delta":
                yield from self._add(item.data)
            case "event_turn_restart" | "event_stream_reset":
                self._text.step_id = ""
            case "step_final":
                yield from self._step(item.data.step)
            case _:
                self._follow_status(item)

    def _follow_status(self, item: StreamItem) -> None:
        """End the answer if the item says that the task waits or has ended."""
        match item.type:
            case "event_tool_unknown":
                self._unknown = True
            case "event_status" if is_partly_answered(item.data, bool(self._steps), self._unknown):
                pass
            case "event_status" | "event_task_end" if self.last is not None:
                self._settle(settled_by(item.data.status, item.data.reason, self.last, False), item.data.status)
            case _:
                pass

    def _begins_with(self, item: StreamItem) -> bool:
        """Note the item, and return True if it is the first step of the answer, or the end of the task."""
        if item.type == "step_final" and item.data.step.seq < self.position:
            self.last = item.data.step
        return item.type == "event_task_end" or (item.type == "step_final" and item.data.step.seq == self.position)

    def _add(self, delta: TextPartDelta) -> Iterator[dict[str, Any]]:
        if not self._text.is_of(delta) and self._running.lacks_begin(delta):
            return
        if not self._text.is_of(delta) or delta.replace:
            self._text.restart(delta)
        yield from self._send(self._text.add(delta.text))

    def _send(self, text: str | None) -> Iterator[dict[str, Any]]:
        """Yield the delta of a text, or end the answer if the text differs from the one that was sent."""
        if text is None:
            self._differ()
        elif text:
            piece = SEPARATOR + text if self._content and not self._in_turn else text
            self._in_turn = True
            self._content.append(piece)
            yield {"content": piece}

    def _differ(self) -> None:
        detail = "a turn was cut or repeated, and the text that was sent is not that of the answer"
        remedy = "send the request again; with the same Idempotency-Key the answer is that of this task"
        self.problem = Problem(500, "turn_restarted", detail, remedy)

    def _step(self, step: TaskStep) -> Iterator[dict[str, Any]]:
        before = self.last if self._steps else None
        if before is not None and begins_response(step, before):
            self._settle(settled_before(before), "completed")
            return
        self.last = step
        self._steps.append(step)
        if not is_answer(step):
            return
        yield from self._send(self._text.commit(step.text))
        self._in_turn = False
        for call in function_calls(step):
            function = {"name": function_name(call), "arguments": arguments_json(call)}
            shown = {"id": shown_call_id(call.id, self.task_id), "type": "function", "function": function}
            self.tool_calls.append(shown)
            yield {"tool_calls": [{"index": len(self.tool_calls) - 1, **shown}]}

    def _settle(self, settled: Settled | None, status: str) -> None:
        if settled is None or self.problem is not None:
            return
        if settled.status in ("completed", "incomplete") and self._text.sent:
            self._differ()
            return
        where = f"task {self.task_id!r}"
        match settled.status:
            case _ if status == "approval":
                detail = f"{where} waits for a person, for which chat completions have no form"
                self.problem = Problem(409, "approval_required", detail, "decide it with /responses or the REST API")
            case "completed":
                self.finish_reason = "tool_calls" if status == "client_tool_turn" else "stop"
            case "incomplete":
                self.finish_reason = "length"
            case "cancelled":
                self.problem = Problem(409, "cancelled", f"{where} was stopped: {settled.reason or 'interrupted'}")
            case _:
                self.problem = Problem(500, "task_failed", f"{where} has failed: {settled.reason}")
