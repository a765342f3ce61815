"""View: a client sees everything once, wherever it was cut off and whatever was lost in between."""

import json
from collections.abc import Iterator
from typing import Any, get_args

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
    UnknownEvent,
    unnumbered_json,
)
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta, final_text
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.errors import UsageError
from tests.support.memory_ports.reader import ItemReader, items_of, read_items
from tests.unit.domain.steps import START, TASK, call, result, text

Record = dict[str, Any]


class Server:
    """Logs and history of one task, as the scripts on the server and the workers keep them."""

    def __init__(self) -> None:
        self.steps: list[TaskStep] = []
        self.log: list[Record] = []
        self.sent: list[tuple[Record, int]] = []
        self._generation = 0
        self._numbers = {"events": 0, "chunks": 0}
        self._attempt = 0
        self._texts: list[str] = []
        self.tell(TaskStarted(team="desk", **_AT))
        self.user("")

    def tell(self, message: AnyEvent | StreamChunk) -> None:
        """Number the message, log it and publish it."""
        mine, other = ("chunks", "events") if isinstance(message, StreamChunk) else ("events", "chunks")
        self._numbers[mine] += 1
        numbers = {"seq": self._numbers[mine], "generation": f"{self._generation:x}", other: self._numbers[other]}
        self.log.append(numbers | json.loads("{" + unnumbered_json(message)))
        self.sent.append((self.log[-1], len(self.steps)))

    def chunk(self, said: str) -> None:
        """A piece of text; the turn begins with it if none is under way."""
        if not self._attempt:
            self._attempt = 1
            self.tell(AgentSelected(agent_name="one", step_id=self._step_id, reason="why", **_AT))
        self._texts.append(said)
        self.tell(StreamChunk(task_id=TASK, step_id=self._step_id, agent_name="one", attempt=self._attempt, text=said))

    def restart(self, _: str) -> None:
        """The turn begins again."""
        if self._attempt:
            self._attempt += 1
            self._texts = []
            self.tell(TurnRestarted(step_id=self._step_id, attempt=self._attempt, reason="lost", **_AT))

    def commit(self, _: str) -> None:
        """The turn becomes a step."""
        if self._attempt:
            self._told(self._store("one", [text("".join(self._texts))], self._of_turn()))

    def late(self, said: str) -> None:
        """The step of an earlier attempt is the one that counts."""
        if self._attempt > 1:
            self._told(self._store("one", [text(said)], {"attempt": self._attempt - 1, "chunks": 1}))

    def user(self, said: str) -> None:
        """A message of the user becomes a step, and ends a turn if one is under way."""
        self._told(self._store("user", [text(said)], {}))

    def tools(self, said: str) -> None:
        """The turn becomes a step with a call, and its result the next one."""
        if self._attempt:
            called = self._store("one", [text("".join(self._texts)), call(said)], self._of_turn())
            tool_call = ToolCall(id=said, tool_name="add", args={})
            self.tell(ToolCalled(step_id=called.step_id, agent_name="one", tool_call=tool_call, **_AT))
            self._told(called)
            self.tell(ToolReturned(tool_name="add", tool_result=ToolResult(tool_call_id=said, result=1), **_AT))
            self._told(self._store("tool_executor", [result(said, 1)], {}))

    def wipe(self, _: str) -> None:
        """Everything is lost but the history."""
        self._generation += 1
        self._numbers = {"events": 0, "chunks": 0}
        self.log = []
        self._attempt = 0
        self._texts = []
        self.tell(StreamReset(steps=len(self.steps), **_AT))

    def store_and_wipe(self, _: str) -> None:
        """The turn's step is in the history, but Redis is lost before it hears of it."""
        if self._attempt:
            self._store("one", [text("".join(self._texts))], self._of_turn())
            self.wipe("")

    def trim(self, said: str) -> None:
        """The oldest chunks leave the log, but for those of the turn under way."""
        kept = sum(1 for record in self.log if "events" in record) - len(said)
        keep = max(kept, len(self._texts))
        chunks = [record for record in self.log if "events" in record]
        gone = [record["seq"] for record in chunks[: len(chunks) - keep]]
        self.log = [record for record in self.log if "chunks" in record or record["seq"] not in gone]

    def end(self) -> None:
        """The task has ended."""
        self.tell(TaskEnded(status=TaskStatus.COMPLETED, reason="done", **_AT))

    def after(self, cursor: str) -> list[Record]:
        """What the logs hold for a follower at the cursor."""
        at = Cursor.parse(cursor)
        if at.generation != f"{self._generation:x}":
            return self.log
        return [record for record in self.log if record["seq"] > (at.events if "chunks" in record else at.chunks)]

    def read_steps(self, start: int) -> Iterator[TaskStep]:
        """The history."""
        return iter(self.steps[start:])

    @property
    def _step_id(self) -> str:
        return step_id_at(TASK, len(self.steps))

    def _of_turn(self) -> Record:
        return {"attempt": self._attempt, "chunks": len(self._texts)}

    def _store(self, author: str, parts: list[Record], metadata: Record) -> TaskStep:
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

    def _told(self, step: TaskStep) -> None:
        self.tell(StepEnded(step=step, **_AT))


_AT: dict[str, Any] = {"task_id": TASK, "timestamp": START}
CALM = ["chunk", "chunk", "chunk", "commit", "user", "tools"]
ROUGH = [*CALM, "restart", "late"]
ALL = [*ROUGH, "wipe", "store_and_wipe", "trim"]


def runs(names: list[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Lists of what happens to a server."""
    return st.lists(st.tuples(st.sampled_from(names), st.sampled_from(["a", "bc", "def "])), max_size=14)


def played(run: list[tuple[str, str]]) -> Server:
    server = Server()
    for name, said in run:
        getattr(server, name)(said)
    server.end()
    return server


def live(server: Server) -> list[StreamItem]:
    """What a follower sees that was there all the time; the history is as long as it was then."""
    known = [0]
    view = MergedStream(Cursor(), lambda start: server.steps[start : known[0]])
    items: list[StreamItem] = []
    for record, steps in server.sent:
        known[0] = steps
        items += view.feed(record)
    return items


def resumed(server: Server, cursor: str) -> list[StreamItem]:
    """What a follower sees that comes back at the very end."""
    return items_of(server.after(cursor), server.read_steps, cursor)


def others(items: list[StreamItem]) -> list[Any]:
    """All items but texts."""
    return [item.data for item in items if not isinstance(item.data, TextPartDelta)]


@given(runs(ROUGH))
def test_each_message_is_one_item_but_for_texts_that_replace(run: list[tuple[str, str]]) -> None:
    server = played(run)
    items = live(server)
    replacing = [one for one in items if isinstance(one.data, TextPartDelta) and one.data.replace]
    assert len(items) == len(server.sent) + len(replacing)
    assert read_items(items).steps == server.steps


@given(runs(ROUGH))
def test_a_follower_resumed_at_any_item_sees_exactly_the_rest(run: list[tuple[str, str]]) -> None:
    server = played(run)
    items = live(server)
    for index, item in enumerate(items):
        assert resumed(server, item.cursor) == items[index + 1 :], f"resumed after item {index}: {item}"
    assert resumed(server, str(Cursor())) == items


@given(runs([*ROUGH, "trim", "trim"]))
def test_texts_that_left_the_log_come_from_the_history(run: list[tuple[str, str]]) -> None:
    server = played(run)
    items = live(server)
    for index, item in enumerate(items):
        rest = resumed(server, item.cursor)
        assert others(rest) == others(items[index + 1 :])
        assert read_items([*items[: index + 1], *rest]).steps == server.steps
    assert read_items(resumed(server, str(Cursor()))).steps == server.steps


@given(runs(ALL))
def test_whatever_was_lost_every_step_is_seen_once_and_with_its_text(run: list[tuple[str, str]]) -> None:
    server = played(run)
    items = live(server)
    assert read_items(items).steps == server.steps
    for index, item in enumerate(items):
        reader = read_items(items[: index + 1])
        for later in resumed(server, item.cursor):
            reader.show(later.data)
        assert reader.steps == server.steps, f"resumed after item {index}: {item}"
    assert read_items(resumed(server, str(Cursor()))).steps == server.steps


@given(runs(ALL))
def test_the_history_is_read_only_for_steps_that_are_lacking(run: list[tuple[str, str]]) -> None:
    """Who follows in an event loop asks beforehand, and reads in a thread."""
    server = played(run)
    reads: list[int] = []

    def read_steps(start: int) -> Iterator[TaskStep]:
        reads.append(start)
        return server.read_steps(start)

    for item in live(server):
        view = MergedStream(Cursor.parse(item.cursor), read_steps)
        for record in server.after(item.cursor):
            lacking = view.needs_steps(record)
            reads.clear()
            list(view.feed(record))
            assert bool(reads) == lacking, record


@given(runs(ALL))
def test_a_follower_that_is_always_cut_off_sees_every_step_once(run: list[tuple[str, str]]) -> None:
    """It takes one item, and comes back with its cursor."""
    server = played(run)
    reader = ItemReader()
    cursor = str(Cursor())
    for _ in range(200):
        rest = resumed(server, cursor)
        if not rest:
            break
        reader.show(rest[0].data)
        cursor = rest[0].cursor
    assert reader.steps == server.steps


@given(runs(ALL))
def test_a_task_that_left_redis_is_told_from_its_history(run: list[tuple[str, str]]) -> None:
    server = played(run)
    items = live(server)
    for index, item in enumerate([None, *items]):
        reader = read_items(items[:index])
        view = MergedStream(Cursor() if item is None else Cursor.parse(item.cursor), server.read_steps)
        for later in view.missing_steps():
            reader.show(later.data)
        assert reader.steps == server.steps
        assert list(view.missing_steps()) == []


@given(runs(ALL))
def test_texts_of_committed_steps_are_those_of_the_history(run: list[tuple[str, str]]) -> None:
    server = played(run)
    written = [step.text for step in server.steps if step.by_agent]
    assert [final_text(item) for item in live(server) if final_text(item)] == [text for text in written if text]
    assert "".join(final_text(item) for item in resumed(server, str(Cursor()))) == "".join(written)


@given(runs(ALL))
def test_cursors_are_texts_that_are_read_back(run: list[tuple[str, str]]) -> None:
    for item in live(played(run)):
        assert str(Cursor.parse(item.cursor)) == item.cursor


@pytest.mark.parametrize("cursor", ["", "x", "1.2.3.4", ".0.0.0.0x", "g.0.0.0.0", "..0.0.0", "a.0.0.0.-1"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        Cursor.parse(cursor)


def test_tool_calls_and_results_are_items_of_their_own() -> None:
    server = played([("chunk", "x"), ("tools", "tc_1")])
    types = [item.type for item in live(server)]
    assert types == [
        "event_task_start",
        "step_final",
        "event_agent_select",
        "text_part_delta",
        "tool_call_part",
        "step_final",
        "tool_result_part",
        "step_final",
        "event_task_end",
    ]


def test_a_step_that_was_had_is_not_shown_again() -> None:
    server = played([("chunk", "x"), ("commit", "")])
    view = MergedStream(Cursor(steps=2), server.read_steps)
    shown = [item.data for record in server.log for item in view.feed(record)]
    assert not [item for item in shown if isinstance(item, StepFinal)]


def test_an_event_of_a_newer_release_is_an_item() -> None:
    record = {"type": "event_of_tomorrow", "seq": 1, "generation": "a", "chunks": 0, "more": [1]}
    view = MergedStream(Cursor(), lambda start: [])
    [item] = view.feed(record)
    assert item.type == "event_unknown"
    assert item.data.type == "event_of_tomorrow"
    assert item.data.model_dump()["more"] == [1]
    assert Cursor.parse(item.cursor).events == 1


def test_a_message_of_a_newer_release_moves_the_cursor_of_its_own_channel() -> None:
    record = {"type": "content_of_tomorrow", "seq": 8, "generation": "a", "events": 4}
    [item] = MergedStream(Cursor("a", events=4, chunks=7), lambda start: []).feed(record)
    assert (item.type, item.data.type) == ("event_unknown", "content_of_tomorrow")
    assert Cursor.parse(item.cursor) == Cursor("a", events=4, chunks=8)


def test_each_item_has_the_type_of_its_data() -> None:
    for one in get_args(StreamItem):
        (kind,), data = get_args(get_args(one)[0]), get_args(one)[1]
        assert kind == ("event_unknown" if data is UnknownEvent else data.model_fields["type"].default)
    assert [get_args(one)[1] for one in get_args(StreamItem)] == list(get_args(ItemData))
