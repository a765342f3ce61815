"""answer_stream: the stream of a task as the parts of an answer to a message of a chat. Pure: no I/O, no clock.

    agent chosen ─► AgentBegan     text, reasoning ─► Piece     turn restarts ─► Voided
    step ─► CallMade, Artifact, OutputGiven, AgentEnded     results ─► CallReturned, CallDenied
    message while agents work ─► its step     the task waits or ends ─► settled

Which texts are void, and where an answer begins and ends, `ResponseStream` knows: all protocols agree on it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.tool_answers import is_client_call
from roboco.domain.history.part import Artifact, ToolCall, ToolResult
from roboco.domain.history.step import OUTPUT, STATE, USER, TaskStep
from roboco.domain.stream.event import AgentHandedOff, SubTaskStarted
from roboco.domain.stream.item import StreamItem
from roboco.domain.usage import Usage
from roboco.gateway.answers.ids import ITEM_PREFIX
from roboco.gateway.openai.events import ResponseEvent
from roboco.gateway.openai.ids import ResponseId, approval_request_id, split_call_id
from roboco.gateway.openai.outputs import is_answer
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart, ResponseStream
from roboco.gateway.openai.segment import COMPLETED, Settled

SUPERSEDED: Final = Settled("incomplete", "the next message of the chat continues the work")


@dataclass(frozen=True)
class Begun:
    """The answer begins. Answers of a client continue the answer before: `by_user` is false then."""

    response_id: str
    by_user: bool


@dataclass(frozen=True)
class AgentBegan:
    """The turn of an agent begins, which leads to this step."""

    step_id: str
    agent: str


@dataclass(frozen=True)
class Piece:
    """A piece of the text, or of the reasoning, with this id."""

    kind: Literal["text", "reasoning"]
    id: str
    text: str


@dataclass(frozen=True)
class PartsEnded:
    """The open text or reasoning is complete."""


@dataclass(frozen=True)
class Voided:
    """All that the running turn has sent is void: it restarts."""


@dataclass(frozen=True)
class CallMade:
    """An agent has called a tool, which the client runs or a worker."""

    call: ToolCall
    by_client: bool
    sub_task: str = ""
    """The sub-task whose agent has called it, as the caller of its task names it; "" for the task's own agents."""


@dataclass(frozen=True)
class OutputGiven:
    """The typed output of an agent."""

    step_id: str
    agent: str
    value: Any


@dataclass(frozen=True)
class StateChanged:
    """A step changes values that the task shares; null removes one."""

    changes: dict[str, Any]


@dataclass(frozen=True)
class AgentEnded:
    """The turn of the agent has ended."""


@dataclass(frozen=True)
class CallReturned:
    """A call has its result, which the client has sent or a worker."""

    result: ToolResult
    by_client: bool


@dataclass(frozen=True)
class CallDenied:
    """A person has denied a call."""

    call_id: str


@dataclass(frozen=True)
class ApprovalAsked:
    """The task waits for a person's decision on a call. `id` names the request."""

    id: str
    call_id: str


@dataclass(frozen=True)
class SubTaskCall:
    """A call of an agent in a sub-task that needs an approval."""

    call: ToolCall
    agent: str
    task_id: str
    """The sub-task, as the caller of its task names it."""


AnswerPart = (
    Begun
    | AgentBegan
    | Piece
    | PartsEnded
    | Voided
    | CallMade
    | Artifact
    | OutputGiven
    | StateChanged
    | AgentEnded
    | CallReturned
    | CallDenied
    | ApprovalAsked
    | TaskStep
    | AgentHandedOff
    | SubTaskStarted
)
"""A file is one that a step names. A step is a message that another client has sent while the agents worked."""


class AnswerStream:
    """Reads the items of a task, from any position before the answer, as its parts."""

    def __init__(self, head: ResponseHead, start: ResponseStart) -> None:
        self.head = head
        self._response = ResponseStream(head, start)
        self._last = start.before
        self._begin = 0
        self._step = ""
        """The step whose turn runs; "" between turns."""
        self._has_content = False
        """True if the running turn has text or reasoning."""
        self._open = ""
        """The id of the open text or reasoning."""
        self._results: set[str] = set()
        """The calls whose results were returned."""
        self._next: StreamItem | None = None
        """The message of the chat with which the next answer begins."""
        self.unknown: dict[str, str] = dict.fromkeys(start.unknown, "it is unknown whether the call had its effect")
        """The calls with an unknown outcome, each with the reason."""
        self.asked: Sequence[SubTaskCall] = ()
        """The calls of sub-tasks that need an approval, for which the answer has ended."""
        self.settled: Settled | None = None
        """The end of the answer."""

    @property
    def steps(self) -> int:
        """The number of steps of the task so far."""
        return 0 if self._last is None else self._last.seq + 1

    @property
    def usage(self) -> Usage:
        """The usage of the answer's steps."""
        return self._response.usage

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls of the last step that have no result."""
        calls = () if self._last is None else self._last.calls
        return [call for call in calls if call.id not in self._results]

    @property
    def delegates(self) -> bool:
        """True if sub-tasks may be open."""
        return any(call.tool_name == DELEGATE for call in self.open_calls)

    def feed(self, item: StreamItem) -> Iterator[AnswerPart]:
        """Yield the parts of an item. Each item is fed once, in order."""
        if self._supersedes(item):
            self._next, self.settled = item, SUPERSEDED
            yield from self._end_turn()
            return
        for event in self._response.feed(item):
            yield from self._event(event, item)
        if self._response.result:
            yield from self._item(item)
        if item.type == "step_final":
            self._last = item.data.step
        self.settled = self._response.settled
        if self.settled is not None:
            yield from self._end_turn()

    def ask(self, unapproved: Sequence[SubTaskCall]) -> Iterator[AnswerPart]:
        """End the answer if calls of sub-tasks need approvals. Yield the parts that ask for them."""
        self.asked = unapproved
        if not unapproved:
            return
        self.settled = COMPLETED
        if not self._response.result:
            yield Begun(str(ResponseId(self.head.task_id, self.steps)), False)
        # A step of their own: a page goes on once it has answered all calls of the last one.
        yield AgentBegan(unapproved[0].call.id, ", ".join(dict.fromkeys(one.agent for one in unapproved)))
        for one in unapproved:
            yield CallMade(one.call, False, one.task_id)
            yield ApprovalAsked(approval_request_id(one.call.id, one.task_id), one.call.id)
        yield AgentEnded()

    def next_answer(self) -> Iterator[AnswerPart]:
        """Continue after the end of an answer: the task goes on. Yield the parts that have begun already."""
        begun, self._next, self.settled = self._next, None, None
        if begun is not None and begun.type == "step_final":
            self._response = ResponseStream(self.head, ResponseStart(begun.data.step.seq))
            yield from self.feed(begun)
        elif self._last is not None:
            self._response = ResponseStream(self.head, ResponseStart(self._last.seq + 1, before=self._last))

    def _supersedes(self, item: StreamItem) -> bool:
        """Return True if the item is another message of the chat, sent while the agents worked."""
        if item.type != "step_final" or not self._response.result or item.data.step.agent_name != USER:
            return False
        return str(item.data.step.metadata.get("item_id", "")).startswith(ITEM_PREFIX)

    def _event(self, event: ResponseEvent, item: StreamItem) -> Iterator[AnswerPart]:
        added = event.fields.get("item", {})
        match event.type, added.get("type"):
            case "response.created", _:
                response_id = event.fields["response"]["id"]
                self._begin = int(response_id.rpartition("_")[2])
                yield Begun(response_id, item.type == "step_final" and item.data.step.agent_name == USER)
            case "response.output_text.delta", _:
                if item.type == "text_part_delta":
                    yield from self._begin_turn(item.data.step_id, item.data.agent_name)
                yield from self._begin_part(event.fields["item_id"])
                yield Piece("text", self._open, event.fields["delta"])
            case "response.output_item.done", "message" if event.void:
                yield from self._void()
            case "response.output_item.done", "message":
                yield from self._end_part()
            case "response.output_item.done", "mcp_approval_request":
                yield ApprovalAsked(added["id"], split_call_id(added["id"])[0])
            case _:
                pass

    def _item(self, item: StreamItem) -> Iterator[AnswerPart]:
        match item.type:
            case "event_agent_select":
                yield from self._void()
                yield from self._begin_turn(item.data.step_id, item.data.agent_name)
            case "event_turn_restart" | "event_stream_reset":
                yield from self._void()
            case "reasoning_delta":
                yield from self._begin_turn(item.data.step_id, item.data.agent_name)
                yield from self._begin_part(f"{item.data.step_id}-{item.data.attempt}")
                yield Piece("reasoning", self._open, item.data.text)
            case "step_final":
                yield from self._committed(item.data.step)
            case "tool_result_part":
                yield from self._returned(item.data.part.tool_result)
            case "event_tool_unknown":
                self.unknown[item.data.tool_call_id] = item.data.reason
            case "event_agent_handoff" | "event_sub_task":
                yield item.data
            case _:
                pass

    def _begin_turn(self, step_id: str, agent: str) -> Iterator[AnswerPart]:
        if self._step != step_id:
            yield from self._end_turn()
            self._step = step_id
            yield AgentBegan(step_id, agent)

    def _end_turn(self) -> Iterator[AnswerPart]:
        """Yield the parts that end a turn. If its step was not committed, its text is void."""
        yield from self._void()
        if self._step:
            self._step = ""
            yield AgentEnded()

    def _begin_part(self, part_id: str) -> Iterator[AnswerPart]:
        if self._open != part_id:
            yield from self._end_part()
            self._open, self._has_content = part_id, True

    def _end_part(self) -> Iterator[AnswerPart]:
        if self._open:
            self._open = ""
            yield PartsEnded()

    def _void(self) -> Iterator[AnswerPart]:
        if self._has_content:
            yield from self._end_part()
            self._has_content = False
            yield Voided()

    def _committed(self, step: TaskStep) -> Iterator[AnswerPart]:
        if is_answer(step):
            yield from self._answered(step)
        else:
            yield from self._end_turn()
        if step.agent_name == USER and step.seq > self._begin:
            yield step
        for result in step.results:
            yield from self._returned(result)
        yield from map(CallDenied, sorted(step.denied_calls))
        yield from step.artifacts if step.agent_name != USER else ()
        if changes := step.metadata.get(STATE):
            yield StateChanged(changes)
        if is_answer(step):
            yield from self._end_part()
            self._has_content = False
            yield from self._end_turn()

    def _answered(self, step: TaskStep) -> Iterator[AnswerPart]:
        yield from self._begin_turn(step.step_id, step.agent_name)
        yield from (CallMade(call, is_client_call(call)) for call in step.calls)
        if OUTPUT in step.metadata:
            yield OutputGiven(step.step_id, step.agent_name, step.metadata[OUTPUT])

    def _returned(self, result: ToolResult) -> Iterator[AnswerPart]:
        if result.tool_call_id not in self._results:
            self._results.add(result.tool_call_id)
            self.unknown.pop(result.tool_call_id, None)
            called = (call for call in (self._last.calls if self._last else ()) if call.id == result.tool_call_id)
            yield CallReturned(result, any(map(is_client_call, called)))
