"""Recorded streams: any cut plus a resume equals the whole, in each form, with filters, and of several tasks."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from roboco.client.task import Task
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.streams.ending import Ending, StreamEnd
from roboco.gateway.streams.event_page import read_page
from roboco.gateway.streams.form import Form, LinesOfJson, ServerSentEvents, Source
from roboco.gateway.streams.place import is_end, split_places
from roboco.gateway.streams.selection import ALWAYS_SHOWN, Selection, StreamChannel
from roboco.gateway.streams.task_source import TaskSource
from roboco.gateway.streams.tasks_source import TasksSource
from tests.support.gateway_streams import Frame, frames_of, place_after, shown
from tests.support.memory_ports.reader import read_items
from tests.unit.domain.stream.test_merged import (
    OPERATIONS_AND_LOSSES,
    StreamServer,
    apply_operations,
    operation_lists,
    resume,
)


class RecordedTask:
    """The stream of a task that has ended."""

    def __init__(self, server: StreamServer, task_id: str = "task") -> None:
        self.task_id = task_id
        self._server = server

    @property
    def task(self) -> Task:
        """This object in place of a task."""
        return cast(Task, self)

    def items(self, cursor: str | None = None) -> list[StreamItem]:
        """Return the items after the cursor."""
        return resume(self._server, cursor or str(Cursor()))

    async def astream(self, cursor: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """Yield the items after the cursor."""
        for item in self.items(cursor):
            yield item

    async def astream_with_gaps(
        self, cursor: str | None = None, *, subtasks: bool = False
    ) -> AsyncGenerator[StreamItem | None, None]:
        """Yield the items after the cursor, each after a None."""
        for item in self.items(cursor):
            yield None
            yield item


FORMS = st.sampled_from([ServerSentEvents, LinesOfJson])
SELECTIONS = st.builds(
    Selection, st.sampled_from([None, *StreamChannel]), st.sampled_from([None, "one", "two", "tool_executor"])
)
WHOLE_LOGS = operation_lists(["chunk", "chunk", "commit", "user", "tools", "restart", "late"])
LOSSES = operation_lists(OPERATIONS_AND_LOSSES)


async def body_of(source: Source[Any], pings: bool = False) -> bytes:
    """Return the body of a stream that its client reads to the end, maybe with a ping after each item."""
    parts = [source.form.opening()]
    async for item in source.items():
        if item is not None:
            parts.append(source.frame(item))
            parts += [source.form.ping(source.take_unsent_place())] if pings else []
    ending = Ending(StreamEnd.TASK_END)
    return b"".join([*parts, source.form.end(source.last_place(ending), ending)])


def read(source: Source[Any], place: str = "", pings: bool = False) -> list[Frame]:
    return frames_of(asyncio.run(body_of(source, pings)), source.form, place)


def expected(items: list[StreamItem], selection: Selection) -> list[tuple[str, Any]]:
    return [(item.type, json.loads(item.data_json)) for item in items if selection.shows(item)]


@given(WHOLE_LOGS, FORMS, SELECTIONS, st.booleans(), st.data())
def test_a_stream_that_is_cut_anywhere_and_resumed_equals_the_whole(
    operations: list[tuple[str, str]], form: type[Form], selection: Selection, pings: bool, data: st.DataObject
) -> None:
    recorded = RecordedTask(apply_operations(operations))
    body = asyncio.run(body_of(TaskSource(recorded.task, "", selection, form), pings))
    whole = shown(frames_of(body, form))
    assert [(frame.kind, frame.data) for frame in whole] == expected(recorded.items(), selection)
    cut = data.draw(st.integers(0, len(body)))
    before = frames_of(body[:cut], form)
    place = place_after(before)
    if not is_end(place):
        assert shown(before) + shown(read(TaskSource(recorded.task, place, selection, form), place)) == whole
    else:
        assert shown(before) == whole


@given(LOSSES, FORMS)
def test_a_client_that_reads_one_frame_of_each_connection_holds_every_step_once(
    operations: list[tuple[str, str]], form: type[Form]
) -> None:
    recorded = RecordedTask(apply_operations(operations))
    everything, place, kinds = Selection(), "", list[str]()
    for _ in range(400):
        [first, *_] = [frame for frame in read(TaskSource(recorded.task, place, everything, form)) if frame.place]
        kinds.append(first.kind)
        if is_end(first.place):
            break
        place = first.place
    assert kinds[-1] == "stream_end"
    assert kinds.count("step_final") == len(read_items(recorded.items()).steps)


@given(st.lists(WHOLE_LOGS, min_size=1, max_size=4), FORMS, SELECTIONS, st.data())
def test_a_stream_of_several_tasks_that_is_cut_anywhere_and_resumed_equals_the_whole(
    logs: list[list[tuple[str, str]]], form: type[Form], selection: Selection, data: st.DataObject
) -> None:
    recorded = [RecordedTask(apply_operations(log), f"task-{number}") for number, log in enumerate(logs)]
    tasks, names = [one.task for one in recorded], [one.task_id for one in recorded]

    def source(place: str) -> TasksSource:
        return TasksSource(tasks, split_places(place, names), selection, form)

    body = asyncio.run(body_of(source("")))
    before = frames_of(body[: data.draw(st.integers(0, len(body)))], form)
    frames = shown(before) + shown(read(source(place_after(before)), place_after(before)))
    for one in recorded:
        own = [(frame.kind, frame.data["data"]) for frame in frames if frame.data["task_id"] == one.task_id]
        assert own == expected(one.items(), selection)
    last = frames_of(body, form)[-1].place
    assert all(map(is_end, split_places(last, names).values()))


@given(WHOLE_LOGS, st.integers(1, 5), SELECTIONS)
def test_pages_together_equal_the_whole(operations: list[tuple[str, str]], limit: int, selection: Selection) -> None:
    recorded = RecordedTask(apply_operations(operations))
    place, found = "", list[tuple[str, Any]]()

    async def read_all() -> None:
        nonlocal place
        while not is_end(place):
            page = await read_page(recorded.astream_with_gaps(place or None), place, selection.shows, limit, 5)
            answer = json.loads(page.json(Selection()))
            found.extend((item["type"], item["data"]) for item in answer["items"])
            assert len(answer["items"]) <= limit
            place = answer["cursor"]
            assert answer["ended"] == is_end(place)

    asyncio.run(read_all())
    assert found == expected(recorded.items(), selection)


@given(LOSSES, SELECTIONS)
def test_every_selection_announces_void_text_and_the_end(
    operations: list[tuple[str, str]], selection: Selection
) -> None:
    items = RecordedTask(apply_operations(operations)).items()
    hidden = {item.type for item in items if not selection.shows(item)}
    assert not hidden & ALWAYS_SHOWN
    assert {"event_turn_restart", "event_stream_reset", "event_task_end"} <= ALWAYS_SHOWN
