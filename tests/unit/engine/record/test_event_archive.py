"""The event log stays short, and no event is lost."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roboco.domain.paths import event_segments_path, events_path
from roboco.domain.stream.event_file import place_of, segment_places
from roboco.domain.stream.item import StreamItem, TextPartDelta
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.engine.engine import LogLimits, Policy
from roboco.engine.record import event_archive
from roboco.engine.workspace_records import StoredEvents
from roboco.redis.stream.log_merger import LogMerger
from roboco.redis.stream.position import StreamPosition
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Fault, make_call
from tests.support.memory_ports.world import POLICY, TASK, World, team_of, world_parts

LIMITS = LogLimits(max_events=6, max_bytes=100_000, kept_events=3, kept_bytes=100_000, waiting_bytes=100)
SHORT_LOGS: Policy = replace(POLICY, log_limits=LIMITS)
ROUNDS = 12


def running_world(policy: Policy = SHORT_LOGS) -> World:
    """Return a deployment with a submitted task of 24 turns."""
    world = World(world_parts(lambda request: says("so it is"), policy=policy))
    team = team_of(
        agents=[member("one"), member("two")],
        collaboration_model={"type": "sequential", "rounds": ROUNDS},
        limits={"max_repeats": 0},
    )
    world.submit(team)
    return world


def published_events(world: World) -> list[dict[str, Any]]:
    """Return the events that a subscriber received, of the present generation."""
    generation = world.server.held.tasks[TASK].generation
    found = [record for record in world.published() if "chunks" in record]
    return [record for record in found if record["generation"] == generation]


def test_the_log_of_a_waiting_task_keeps_one_event() -> None:
    world = World(world_parts(lambda request: says("yes?"), policy=SHORT_LOGS))
    world.submit(team_of(agents=[member("one")], collaboration_model={"type": "manual"}))
    for number in range(20):
        world.settle()
        task = world.server.held.tasks[TASK]
        assert (len(task.events), len(task.chunks)) == (1, 0)
        assert world.events() == published_events(world)
        world.send("more", item_id=f"item{number}")
    names = world.files.names(event_segments_path(TASK))
    assert 0 < len(names) < 12
    assert len(set(segment_places(names))) == len(names)


def test_two_workers_that_archive_at_once_store_each_event_once() -> None:
    """A second worker archives just before each operation of the first one."""
    world = running_world()
    while world.server.held.tasks[TASK].last_event < 12:
        world.deliver(world.dispatcher.queue.popleft())
    for at in range(1, 6):
        task = world.engine.tasks.task_store.load(TASK, 1)
        assert task is not None
        other = world.process()
        full = replace(task, logs=replace(task.logs, event_bytes=10**6))

        def archive(other: Any = other, full: Any = full) -> None:
            event_archive.archive_running(other, TASK, full)

        world.watch = Fault(at, archive_once(world, archive))
        event_archive.archive_running(world.engine, TASK, full)
        world.watch = make_call
        assert world.events() == published_events(world)
        for _ in range(3):
            world.deliver(world.dispatcher.queue.popleft())


def stored_places(world: World) -> list[tuple[str, int]]:
    """Return the generation and the number of each event in `events.jsonl`."""
    return [place_of(line) for line in world.files.held[events_path(TASK)].splitlines()]


def world_with_full_log() -> World:
    """Return a deployment with a long log, no part of it archived."""
    world = running_world(POLICY)
    for _ in range(12):
        world.deliver(world.dispatcher.queue.popleft())
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert (task.logs.first_event, task.logs.archived_event, task.logs.events > 12) == (1, 0, True)
    return world


@pytest.mark.parametrize("at", range(1, 5))
def test_a_task_that_continues_during_the_merge_loses_no_event(at: int) -> None:
    """Its newer events are archived and trimmed beside the n-th operation of the merge."""
    world = world_with_full_log()

    def continue_task() -> None:
        for _ in range(8):
            world.deliver(world.dispatcher.queue.popleft())
        task = world.engine.tasks.task_store.load(TASK, 1)
        assert task is not None
        event_archive.archive_running(replace(world.process(), policy=SHORT_LOGS), TASK, task)

    world.watch = fault = Fault(at, archive_once(world, continue_task))
    event_archive.write_events(world.engine, TASK)
    world.watch = make_call
    assert fault.struck
    assert world.server.held.tasks[TASK].first_event > 20
    assert world.events() == published_events(world)
    world.settle()
    assert [number for _, number in stored_places(world)] == [record["seq"] for record in published_events(world)]


def archive_once(world: World, archive: Any) -> Any:
    """Return a function that archives without a watch."""

    def act() -> None:
        watch, world.watch = world.watch, make_call
        archive()
        world.watch = watch

    return act


class _Logs:
    """The logs of a task in memory, in pages."""

    def __init__(self, world: World) -> None:
        self._task = world.server.held.tasks[TASK]

    def page(self, log: str, after: int, size: int) -> list[tuple[int, str]]:
        """Return at most `size` numbers and messages of a log after this number."""
        task = self._task
        first, messages = (task.first_event, task.events) if log == "events" else (task.first_chunk, task.chunks)
        return [entry for entry in enumerate(messages, first) if entry[0] > after][:size]


def items_of_logs(world: World, cursor: str = "") -> list[StreamItem]:
    """Return the items that a follower at the cursor receives from the trimmed logs and the workspace."""
    at = Cursor.parse(cursor) if cursor else Cursor()
    generation = world.server.held.tasks[TASK].generation
    position = StreamPosition(generation, at.events, at.chunks)
    archive = StoredEvents(world.files, world.histories)
    merger = LogMerger(_Logs(world).page, archive.read, TASK, ("chunks", "events"), 4)
    view = MergedStream(at, partial(world.histories.read, TASK))
    items: list[StreamItem] = []
    for record in merger.merge(position):
        position.advance(record)
        items += view.feed(record)
    return items


def without_text(items: list[StreamItem]) -> list[Any]:
    """Return the data of all items but pieces of text, which trimmed logs yield as a whole."""
    return [item.data for item in items if not isinstance(item.data, TextPartDelta)]


def test_followers_of_trimmed_logs_receive_the_same_items_from_every_cursor() -> None:
    """The same as live followers, except that the text of a step may come as one piece."""
    world = running_world()
    while world.dispatcher.queue:
        world.deliver(world.dispatcher.queue.popleft())
    live = items_of(world.published(), partial(world.histories.read, TASK))
    assert world.server.held.tasks[TASK].first_event > 30
    assert without_text(items_of_logs(world)) == without_text(live)
    reader = read_items(items_of_logs(world))
    assert (reader.steps, reader.ended) == (world.history(), True)
    for index, item in enumerate(live):
        assert without_text(items_of_logs(world, item.cursor)) == without_text(live[index + 1 :])
        read_on = items_of_logs(world, item.cursor)
        resumed = read_items([*live[: index + 1], *read_on])
        assert (resumed.steps, resumed.ended) == (world.history(), True)
