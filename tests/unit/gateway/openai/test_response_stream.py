"""ResponseStream: a client that resumes anywhere, by a number, ends with the text of the whole stream."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import ANSWER_FORM, OUTPUT
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.openai.events import ResponseEvent, events_after
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart, ResponseStream
from tests.unit.domain.stream.test_merged import (
    OPERATIONS_AND_LOSSES,
    OPERATIONS_AND_RESTARTS,
    StreamServer,
    apply_operations,
    follow_live,
    operation_lists,
    resume,
)

HEAD = ResponseHead("task_1", "desk")
TRIMMED = [*OPERATIONS_AND_RESTARTS, "trim", "trim"]


class Client:
    """A client that adds up deltas, and asserts that they agree with the events that complete an item."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.indexes: dict[int, str] = {}
        self.done: dict[str, Any] = {}
        self.number = -1
        self.response: Any = None

    def receive(self, events: Iterable[ResponseEvent]) -> "Client":
        """Apply the events."""
        for event in events:
            self._apply(event.document())
        return self

    def _apply(self, event: dict[str, Any]) -> None:
        assert self.response is None, f"{event['type']} follows the last event"
        assert event["sequence_number"] > self.number, f"{event['type']} is not new"
        self.number = event["sequence_number"]
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] not in self.indexes, "an index is used twice"
                assert event["item"]["id"] not in self.texts, "an item begins twice"
                self.indexes[event["output_index"]] = event["item"]["id"]
                self.texts[event["item"]["id"]] = ""
            case "response.output_text.delta":
                assert self.indexes[event["output_index"]] == event["item_id"]
                self.texts[event["item_id"]] += event["delta"]
            case "response.output_text.done" if self.done_as_committed(event):
                assert self.texts[event["item_id"]] == event["text"]
            case "response.output_item.done":
                assert self.indexes[event["output_index"]] == event["item"]["id"]
                self.done[event["item"]["id"]] = event["item"]
            case "response.completed" | "response.failed" | "response.incomplete":
                self.response = event["response"]
            case _:
                pass

    @staticmethod
    def done_as_committed(event: dict[str, Any]) -> bool:
        """Return True unless the text is that of a void message, which the log may hold no more."""
        return bool(event["text"])

    @property
    def text(self) -> str:
        """The text of the response, by its output."""
        return "".join(part["text"] for item in self.response["output"] for part in item.get("content", ()))

    def statuses(self) -> dict[str, str]:
        """Return the statuses of all items, also of void ones."""
        return {item_id: item["status"] for item_id, item in self.done.items()}

    def check(self) -> "Client":
        """Assert that the deltas of each message of the output are its text."""
        for item in self.response["output"]:
            assert self.texts[item["id"]] == item["content"][0]["text"]
            assert self.done[item["id"]] == item
        return self


def events_of(items: Iterable[StreamItem]) -> list[ResponseEvent]:
    """Return the events of the response from the first step on."""
    stream = ResponseStream(HEAD, ResponseStart(0))
    return [event for item in items for event in stream.feed(item)]


def agents_text(server: StreamServer) -> str:
    """Return the text of all agents."""
    return "".join(step.text for step in server.steps if step.by_agent)


@given(operation_lists(TRIMMED))
def test_any_cut_plus_the_rest_is_the_whole(operations: list[tuple[str, str]]) -> None:
    """The rest is read from the log as it is after the end, where chunks of committed steps are trimmed."""
    server = apply_operations(operations)
    live, later = events_of(follow_live(server)), events_of(resume(server, str(Cursor())))
    whole = Client().receive(live)
    for cut in range(len(live)):
        client = Client().receive(live[:cut])
        client.receive(events_after(later, client.number if cut else None)).check()
        assert client.response == whole.response
        assert client.statuses() == whole.statuses()


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_after_a_loss_of_redis_the_response_is_whole(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    live, later = events_of(follow_live(server)), events_of(resume(server, str(Cursor())))
    assert Client().receive(live).text == agents_text(server)
    for cut in range(1, len(live)):
        rest = list(events_after(later, live[cut - 1].number))
        assert rest[-1].fields["response"]["status"] == "completed"
        both = [*live[:cut], *rest]
        numbers = [event.number for event in both][:-1]
        assert numbers == sorted(numbers)


def formed(items: Iterable[StreamItem]) -> Iterator[StreamItem]:
    """Yield the items as those of a message that demands a type, whose agents all have typed answers."""
    for item in items:
        if item.type == "step_final":
            step = item.data.step
            more: dict[str, Any] = {OUTPUT: step.text} if step.by_agent else {}
            more |= {ANSWER_FORM: {"schema": {"type": "string"}}} if step.seq == 0 else {}
            changed = step.model_copy(update={"metadata": step.metadata | more})
            yield replace(item, data=item.data.model_copy(update={"step": changed}))
        else:
            yield item


@given(operation_lists(TRIMMED))
def test_any_cut_of_a_typed_response_plus_the_rest_is_its_last_value(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    live = events_of(formed(follow_live(server)))
    later = events_of(formed(resume(server, str(Cursor()))))
    whole = Client().receive(live).check()
    last = next((step for step in reversed(server.steps) if step.by_agent), None)
    answered = last is not None and not last.calls
    assert whole.response["status"] == ("completed" if answered else "failed")
    assert whole.text == (canonical_json(last.text) if last is not None and answered else "")
    assert len(whole.done) == answered  # no text of an earlier agent or attempt is shown
    for cut in range(len(live)):
        client = Client().receive(live[:cut])
        client.receive(events_after(later, client.number if cut else None)).check()
        assert client.response == whole.response
