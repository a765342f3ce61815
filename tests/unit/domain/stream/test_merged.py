"""MergedStream: a follower receives every step once, wherever it disconnects and whatever Redis loses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import (
    AgentSelected,
    AnyEvent,
    StepEnded,
    StreamChunk,
    StreamReset,
    TaskEnded,
    TaskStarted,
    ToolCalled,
    ToolReturned,
    TurnRestarted,
    unnumbered_json,
)
from roboco.domain.stream.item import StreamItem, final_text
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.errors import UsageError
from tests.support.memory_ports.reader import items_of, read_items
from tests.unit.domain.steps import START, TASK, call, result, text

JsonObject = dict[str, Any]


class StreamServer:
    """Logs and history of one task, as the Redis scripts and the workers keep them."""

    def __init__(self) -> None:
        self.steps: list[TaskStep] = []
        self.log: list[JsonObject] = []
        self.sent: list[tuple[JsonObject, int]] = []
        self._generation = 0
        self._numbers = {"events": 0, "chunks": 0}
        self._attempt = 0
        self._texts: list[str] = []
        self.publish(TaskStarted(team="desk", **_AT))
        self.user("")

    def publish(self, message: AnyEvent | StreamChunk) -> None:
        """Number the message, log it and publish it."""
        mine, other = ("chunks", "events") if isinstance(message, StreamChunk) else ("events", "chunks")
        self._numbers[mine] += 1
        numbers = {"seq": self._numbers[mine], "generation": f"{self._generation:x}", other: self._numbers[other]}
        self.log.append(numbers | json.loads("{" + unnumbered_json(message)))
        self.sent.append((self.log[-1], len(self.steps)))

    def chunk(self, content: str) -> None:
        """Publish a piece of text, and start a turn before it if none is running."""
        if not self._attempt:
            self._attempt = 1
            self.publish(AgentSelected(agent_name="one", step_id=self._step_id, reason="why", **_AT))
        self._texts.append(content)
        self.publish(
            StreamChunk(task_id=TASK, step_id=self._step_id, agent_name="one", attempt=self._attempt, text=content)
        )

    def restart(self, _: str) -> None:
        """Restart the turn."""
        if self._attempt:
            self._attempt += 1
            self._texts = []
            self.publish(TurnRestarted(step_id=self._step_id, attempt=self._attempt, reason="lost", **_AT))

    def commit(self, _: str) -> None:
        """Commit the turn as a step."""
        if self._attempt:
            self._publish_step(self._store("one", [text("".join(self._texts))], self._of_turn()))

    def late(self, content: str) -> None:
        """Commit the step of an earlier attempt."""
        if self._attempt > 1:
            self._publish_step(self._store("one", [text(content)], {"attempt": self._attempt - 1, "chunks": 1}))

    def user(self, content: str) -> None:
        """Commit a message of the user, which ends a running turn."""
        self._publish_step(self._store("user", [text(content)], {}))

    def tools(self, content: str) -> None:
        """Commit the turn as a step with a call, and the result as the next step."""
        if self._attempt:
            called = self._store("one", [text("".join(self._texts)), call(content)], self._of_turn())
            tool_call = ToolCall(id=content, tool_name="add", args={})
            self.publish(ToolCalled(step_id=called.step_id, agent_name="one", tool_call=tool_call, **_AT))
            self._publish_step(called)
            self.publish(ToolReturned(tool_name="add", tool_result=ToolResult(tool_call_id=content, result=1), **_AT))
            self._publish_step(self._store("tool_executor", [result(content, 1)], {}))

    def wipe(self, _: str) -> None:
        """Lose everything except the history."""
        self._generation += 1
        self._numbers = {"events": 0, "chunks": 0}
        self.log = []
        self._attempt = 0
        self._texts = []
        self.publish(StreamReset(steps=len(self.steps), **_AT))

    def store_and_wipe(self, _: str) -> None:
        """Append the step of the turn to the history, and lose Redis before it applies the step."""
        if self._attempt:
            self._store("one", [text("".join(self._texts))], self._of_turn())
            self.wipe("")

    def trim(self, content: str) -> None:
        """Remove the oldest chunks from the log, except those of the running turn."""
        kept = sum(1 for record in self.log if "events" in record) - len(content)
        keep = max(kept, len(self._texts))
        chunks = [record for record in self.log if "events" in record]
        gone = [record["seq"] for record in chunks[: len(chunks) - keep]]
        self.log = [record for record in self.log if "chunks" in record or record["seq"] not in gone]

    def end(self) -> None:
        """End the task."""
        self.publish(TaskEnded(status=TaskStatus.COMPLETED, reason="done", **_AT))

    def after(self, cursor: str) -> list[JsonObject]:
        """Return the log messages for a follower at the cursor."""
        at = Cursor.parse(cursor)
        if at.generation != f"{self._generation:x}":
            return self.log
        return [record for record in self.log if record["seq"] > (at.events if "chunks" in record else at.chunks)]

    def read_steps(self, start: int) -> Iterator[TaskStep]:
        """Return the steps of the history from this position on."""
        return iter(self.steps[start:])

    @property
    def _step_id(self) -> str:
        return step_id_at(TASK, len(self.steps))

    def _of_turn(self) -> JsonObject:
        return {"attempt": self._attempt, "chunks": len(self._texts)}

    def _store(self, author: str, parts: list[JsonObject], metadata: JsonObject) -> TaskStep:
        step = TaskStep.model_validate(
            {
                "step_id": self._step_id,
                "seq": len(self.steps),
                "agent_name": author,
                "parts": parts,
                "created_at": START,
                "metadata": metadata,
            }
        )
        self.steps.append(step.sealed(self.steps[-1].digest if self.steps else ""))
        self._attempt = 0
        self._texts = []
        return self.steps[-1]

    def _publish_step(self, step: TaskStep) -> None:
        self.publish(StepEnded(step=step, **_AT))


_AT: dict[str, Any] = {"task_id": TASK, "timestamp": START}
OPERATIONS = ["chunk", "chunk", "chunk", "commit", "user", "tools"]
OPERATIONS_AND_RESTARTS = [*OPERATIONS, "restart", "late"]
OPERATIONS_AND_LOSSES = [*OPERATIONS_AND_RESTARTS, "wipe", "store_and_wipe", "trim"]


def operation_lists(names: list[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Return a strategy of lists of operations on a server."""
    return st.lists(st.tuples(st.sampled_from(names), st.sampled_from(["a", "bc", "def "])), max_size=14)


def apply_operations(operations: list[tuple[str, str]]) -> StreamServer:
    server = StreamServer()
    for name, content in operations:
        getattr(server, name)(content)
    server.end()
    return server


def follow_live(server: StreamServer) -> list[StreamItem]:
    """Return the items of a follower from the start. It reads the history as it was at each message."""
    known = [0]
    view = MergedStream(Cursor(), lambda start: server.steps[start : known[0]])
    items: list[StreamItem] = []
    for record, steps in server.sent:
        known[0] = steps
        items += view.feed(record)
    return items


def resume(server: StreamServer, cursor: str) -> list[StreamItem]:
    """Return the items of a follower that resumes from the cursor after the end."""
    return items_of(server.after(cursor), server.read_steps, cursor)


@given(operation_lists(OPERATIONS_AND_RESTARTS))
def test_a_follower_that_resumes_at_any_item_receives_exactly_the_rest(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    items = follow_live(server)
    for index, item in enumerate(items):
        assert resume(server, item.cursor) == items[index + 1 :], f"resumed after item {index}: {item}"
    assert resume(server, str(Cursor())) == items


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_after_any_loss_a_follower_receives_every_step_once(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    items = follow_live(server)
    assert read_items(items).steps == server.steps
    for index, item in enumerate(items):
        reader = read_items(items[: index + 1])
        for later in resume(server, item.cursor):
            reader.show(later.data)
        assert reader.steps == server.steps, f"resumed after item {index}: {item}"
    assert read_items(resume(server, str(Cursor()))).steps == server.steps


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_the_history_is_read_only_for_missing_steps(operations: list[tuple[str, str]]) -> None:
    """An asyncio follower calls `needs_steps` first, and reads in a thread."""
    server = apply_operations(operations)
    reads: list[int] = []

    def read_steps(start: int) -> Iterator[TaskStep]:
        reads.append(start)
        return server.read_steps(start)

    for item in follow_live(server):
        view = MergedStream(Cursor.parse(item.cursor), read_steps)
        for record in server.after(item.cursor):
            missing = view.needs_steps(record)
            reads.clear()
            list(view.feed(record))
            assert bool(reads) == missing, record


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_texts_of_committed_steps_are_those_of_the_history(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    written = [step.text for step in server.steps if step.by_agent]
    assert [final_text(item) for item in follow_live(server) if final_text(item)] == [text for text in written if text]
    assert "".join(final_text(item) for item in resume(server, str(Cursor()))) == "".join(written)


@pytest.mark.parametrize("cursor", ["", "1.2.3.4", ".0.0.0.0.0x", "g.0.0.0.0.0", "a.0.0.0.0.-1"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        Cursor.parse(cursor)


def test_an_event_of_a_newer_release_is_an_item() -> None:
    record = {"type": "event_of_tomorrow", "seq": 1, "generation": "a", "chunks": 0, "more": [1]}
    view = MergedStream(Cursor(), lambda start: [])
    [item] = view.feed(record)
    assert item.type == "event_unknown"
    assert item.data.type == "event_of_tomorrow"
    assert item.data.model_dump()["more"] == [1]
    assert Cursor.parse(item.cursor).events == 1
