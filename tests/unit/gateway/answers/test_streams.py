"""A client of the AI SDK, and one of AG-UI, that reads live, or again from the begin after a cut, has the same text.

The clients here are stricter than the real ones: an event out of its order fails. The real ones are driven in
`tests/integration/gateway/test_chat_protocols.py`.
"""

from collections.abc import Iterable
from typing import Any

from ag_ui.core import RunAgentInput, UserMessage
from hypothesis import given

from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.agui.run_stream import RunStream
from roboco.gateway.ai_sdk.ui_stream import UIMessageStream
from roboco.gateway.answers.answer_stream import AnswerStream
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
    """A page of the AI SDK: the parts of one message."""

    def __init__(self, chunks: Iterable[dict[str, Any]]) -> None:
        self.parts: list[dict[str, Any]] = []
        self.open: dict[str, dict[str, Any]] = {}
        self.in_step = False
        self.end = ""
        for chunk in chunks:
            assert not self.end, f"{chunk['type']} follows the end"
            self._apply(chunk)
        assert self.end
        assert not self.in_step
        assert not self.open

    def _apply(self, chunk: dict[str, Any]) -> None:
        match chunk["type"]:
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
    """A client of AG-UI: the messages of its thread."""

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self.messages: list[dict[str, Any]] = []
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


def page(items: Iterable[StreamItem]) -> Page:
    """Return a page that has read the answer."""
    answer = AnswerStream(HEAD, ResponseStart(0))
    stream = UIMessageStream(answer, "/files")
    chunks = [chunk for item in items for part in answer.feed(item) for chunk in stream.chunks(part)]
    return Page([*chunks, *stream.closing()])


def agent(items: Iterable[StreamItem]) -> Agent:
    """Return a client of AG-UI that has read the answer."""
    answer = AnswerStream(HEAD, ResponseStart(0))
    stream = RunStream(answer, RUN, None, "/files")
    events = [*stream.opening(trimmed=False)]
    events += [event for item in items for part in answer.feed(item) for event in stream.events(part)]
    events += stream.closing()
    return Agent(event.model_dump(by_alias=True, mode="json") for event in events)


@given(operation_lists(TRIMMED))
def test_reading_again_from_the_begin_is_the_whole(operations: list[tuple[str, str]]) -> None:
    """Read live, and from the log as it is after the end, where chunks of committed steps are trimmed."""
    server = apply_operations(operations)
    live, later = list(follow_live(server)), list(resume(server, str(Cursor())))
    assert page(live).text == page(later).text == agents_text(server)
    assert agent(live).text == agent(later).text == agents_text(server)


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_after_a_loss_of_redis_the_answer_is_whole(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    live = list(follow_live(server))
    assert page(live).text == agent(live).text == agents_text(server)
