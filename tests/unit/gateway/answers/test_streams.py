"""A client of the AI SDK, AG-UI or A2A that reads live, or again from the begin after a cut, has the same text.

The clients here are stricter than the real ones: an event out of its order fails. The real ones are driven in
`tests/integration/gateway/test_chat_protocols.py`.
"""

from collections.abc import Iterable
from typing import Any

from a2a.types import Artifact, Part, StreamResponse, Task
from ag_ui.core import RunAgentInput, ToolMessage, UserMessage
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis.strategies import floats

from roboco.domain.history.part import ToolResult
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.a2a.task_events import TaskEvents
from roboco.gateway.agui.run_stream import RunStream
from roboco.gateway.ai_sdk.ui_stream import UIMessageStream
from roboco.gateway.answers.answer_stream import AnswerStream, CallReturned
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart
from tests.unit.domain.stream.test_merged import (
    OPERATIONS_AND_LOSSES,
    OPERATIONS_AND_RESTARTS,
    apply_operations,
    follow_live,
    operation_lists,
    resume,
)
from tests.unit.gateway.openai.test_response_stream import agents_text

HEAD = ResponseHead("task_1", "desk")
TRIMMED = [*OPERATIONS_AND_RESTARTS, "trim", "trim"]
RUN = RunAgentInput(
    thread_id="thread", run_id="run", protocol_version="1.0", messages=[UserMessage(id="u", content="")]
)


class Page:
    """A page of the AI SDK: the parts of one message. All readings but the last one may be cut off."""

    def __init__(self, *readings: Iterable[dict[str, Any]]) -> None:
        self.ids: set[str] = set()
        for chunks in readings:
            self.parts: list[dict[str, Any]] = []
            self.open: dict[str, dict[str, Any]] = {}
            self.in_step = False
            self.end = ""
            for chunk in chunks:
                assert not self.end, f"{chunk['type']} follows the end"
                self._apply(chunk)
        assert self.end
        assert len(self.ids) <= 1, "another message, which does not replace the one that was cut off"
        assert not self.in_step
        assert not self.open

    def _apply(self, chunk: dict[str, Any]) -> None:
        match chunk["type"]:
            case "start":
                self.ids.add(chunk["messageId"])
            case "start-step" | "finish-step":
                assert not self.open
                assert self.in_step is (chunk["type"] == "finish-step")
                self.in_step = not self.in_step
                self.parts.extend([{"type": "step"}] if self.in_step else [])
            case "reset-step":
                assert self.in_step
                begin = max(index for index, part in enumerate(self.parts) if part["type"] == "step")
                del self.parts[begin + 1 :]
            case "text-start":
                assert self.in_step
                assert not self.open
                part = self.open[chunk["id"]] = {"type": "text", "text": ""}
                self.parts.append(part)
            case "text-delta":
                self.open[chunk["id"]]["text"] += chunk["delta"]
            case "text-end":
                del self.open[chunk["id"]]
            case "finish" | "abort" | "error":
                self.end = chunk["type"]
            case _:
                pass

    @property
    def text(self) -> str:
        """The text of the message."""
        return "".join(part.get("text", "") for part in self.parts)


class Agent:
    """A client of AG-UI: the messages of its thread, which it keeps if a run is cut off. The last run is not."""

    def __init__(self, *runs: Iterable[dict[str, Any]]) -> None:
        self.messages: list[dict[str, Any]] = []
        for events in runs:
            self.open: dict[str, dict[str, Any]] = {}
            self.agents: set[str] = set()
            self.ended: set[str] = set()
            self.end = ""
            for number, event in enumerate(events):
                assert (event["type"] == "RUN_STARTED") is (number == 0)
                assert not self.end, f"{event['type']} follows the end"
                self._apply(event)
        assert self.end
        assert not self.open
        assert self.agents == self.ended

    def _apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "SUBAGENT_STARTED":
                assert event["subagentRunId"] not in self.agents
                self.agents.add(event["subagentRunId"])
            case "SUBAGENT_FINISHED":
                self.ended.add(event["subagentRunId"])
            case "TEXT_MESSAGE_START":
                assert event["role"] == "user" or event["subagentRunId"] in self.agents - self.ended
                message = self.open[event["messageId"]] = {"role": event["role"], "content": ""}
                self.messages.append(message)
            case "TEXT_MESSAGE_CONTENT":
                self.open[event["messageId"]]["content"] += event["delta"]
            case "TEXT_MESSAGE_END":
                del self.open[event["messageId"]]
            case "MESSAGES_SNAPSHOT":
                assert not self.open
                self.messages = event["messages"]
            case "RUN_FINISHED" | "RUN_ERROR":
                self.end = event["type"]
            case _:
                pass

    @property
    def text(self) -> str:
        """The text of the agents."""
        return "".join(message.get("content") or "" for message in self.messages if message["role"] == "assistant")


class RemoteTask:
    """A client of A2A: the artifacts of one task, which it keeps if a reading is cut off."""

    def __init__(self, *readings: Iterable[StreamResponse]) -> None:
        self.artifacts: dict[str, Artifact] = {}
        self.id, self.context_id, self.state = "", "", 0
        self.asks: list[Part] = []
        self.calls: list[str] = []
        for events in readings:
            self.whole: set[str] = set()
            for event in events:
                self._apply(event)

    def _apply(self, event: StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self.id, self.context_id, self.state = event.task.id, event.task.context_id, event.task.status.state
                self.artifacts = {one.artifact_id: one for one in event.task.artifacts}
            case "status_update":
                self.state = event.status_update.status.state
                self.asks = [part for part in event.status_update.status.message.parts if part.HasField("data")]
                if call := MessageToDict(event.status_update.metadata).get("call"):
                    self.calls.append(call["callId"])
            case "artifact_update":
                update = event.artifact_update
                if update.append:
                    assert update.artifact.artifact_id not in self.whole
                    self.artifacts[update.artifact.artifact_id].parts.extend(update.artifact.parts)
                else:
                    self.artifacts[update.artifact.artifact_id] = update.artifact
                if update.last_chunk:
                    self.whole.add(update.artifact.artifact_id)
            case _:
                pass

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The agents, each with the text of a turn."""
        found = [(one.name, "".join(part.text for part in one.parts)) for one in self.artifacts.values()]
        return [(name, text) for name, text in found if text]

    @property
    def text(self) -> str:
        """The text of the agents."""
        return "".join(text for _, text in self.texts)


def chunks(items: Iterable[StreamItem]) -> list[dict[str, Any]]:
    """Return an answer as a page of the AI SDK reads it."""
    answer = AnswerStream(HEAD, ResponseStart(0))
    stream = UIMessageStream(answer, "/files")
    found = [chunk for item in items for part in answer.feed(item) for chunk in stream.chunks(part)]
    return [*found, *stream.closing()]


def events(items: Iterable[StreamItem], again: bool = False) -> list[dict[str, Any]]:
    """Return an answer as a client of AG-UI reads it; `again` if it has messages of the answer."""
    answer = AnswerStream(HEAD, ResponseStart(0))
    stream = RunStream(answer, RUN, None, "/files")
    found = [*stream.opening(trimmed=again)]
    found += [event for item in items for part in answer.feed(item) for event in stream.events(part)]
    return [event.model_dump(by_alias=True, mode="json") for event in (*found, *stream.closing())]


def responses(items: Iterable[StreamItem]) -> list[StreamResponse]:
    """Return a task as a client of A2A reads it."""
    answer = AnswerStream(HEAD, ResponseStart(0))
    stream = TaskEvents("a2a_1", "1", "/files")
    found = [event for item in items for part in answer.feed(item) for event in stream.events(part)]
    return [StreamResponse(task=Task(id="a2a_1", context_id="1")), *found]


@given(operation_lists(TRIMMED), floats(0, 1))
def test_any_cut_and_reading_again_are_the_whole(operations: list[tuple[str, str]], place: float) -> None:
    """Read live up to a cut, and from the log as it is after the end, where chunks of committed steps are trimmed."""
    server = apply_operations(operations)
    live, later = list(follow_live(server)), list(resume(server, str(Cursor())))

    def begin(whole: list[Any]) -> list[Any]:
        return whole[: round(place * len(whole))]

    page = Page(begin(chunks(live)), chunks(later))
    begun = begin(events(live))
    agent = Agent(begun, events(later, again=True)) if begun else Agent(events(later))
    remote = RemoteTask(begin(responses(live)), responses(later))
    assert page.text == agent.text == remote.text == agents_text(server)
    assert Page(chunks(live)).text == Agent(events(live)).text == RemoteTask(responses(live)).text == page.text


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_after_a_loss_of_redis_the_answer_is_whole(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    live = list(follow_live(server))
    assert Page(chunks(live)).text == Agent(events(live)).text == agents_text(server)
    assert RemoteTask(responses(live)).text == agents_text(server)


def test_a_run_repeats_no_result_that_its_client_has() -> None:
    """A result may have arrived before the approval of a sub-task was asked for, with which the run before ended."""
    message_id = "call.task_1-result"
    returned = CallReturned(ToolResult(tool_call_id="call", result=3), by_client=False)
    run = RUN.model_copy(update={"messages": [ToolMessage(id=message_id, tool_call_id="call.task_1", content="3")]})
    sent = [
        [getattr(event, "message_id", "") for event in RunStream(answer, known, None, "/files").events(returned)]
        for answer, known in [(AnswerStream(HEAD, ResponseStart(0)), known) for known in (RUN, run)]
    ]
    assert sent == [[message_id], []]
