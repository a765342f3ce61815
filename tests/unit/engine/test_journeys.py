"""Whole runs, undisturbed and disturbed: they always come to the same history."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.domain.stream.merged import Cursor, MergedStream
from tests.support.memory_ports.dispatcher import Message
from tests.support.memory_ports.journeys import JOURNEYS, Journey, assert_same, comparable_step
from tests.support.memory_ports.reader import ItemReader, items_of, read_items
from tests.support.memory_ports.watch import Crash, Fault, make_call
from tests.support.memory_ports.world import TASK, World

FAR = 10**9
NAMES = sorted(JOURNEYS)


def undisturbed(journey: Journey) -> tuple[World, int]:
    """The run without a fault, and its number of port calls."""
    count = Fault(FAR, lambda: None)
    return journey.run(journey.world(count)), len(count.seen)


def struck(journey: Journey, n: int, after: bool, act: Callable[[World], None]) -> World:
    """The run with something done at its n-th port call."""
    worlds: list[World] = []
    fault = Fault(n, lambda: act(worlds[0]), after)
    worlds.append(journey.world(fault))
    journey.run(worlds[0])
    assert fault.struck
    return worlds[0]


def crash(world: World) -> None:
    raise Crash


@pytest.mark.parametrize(
    ("name", "speakers", "status"),
    [
        ("graph", "user writer critic writer critic writer critic", TaskStatus.COMPLETED),
        ("sequential", "user first second first second", TaskStatus.COMPLETED),
        ("manual", "user helper user helper user expert orchestrator", TaskStatus.CANCELLED),
        ("tools", "user lead tool_executor lead tool_executor closer", TaskStatus.COMPLETED),
        ("custom", "user third second first", TaskStatus.COMPLETED),
        ("failing", "user first second", TaskStatus.FAILED),
    ],
)
def test_a_team_runs_to_its_end(name: str, speakers: str, status: TaskStatus) -> None:
    world, _ = undisturbed(JOURNEYS[name])
    assert [step.agent_name for step in world.history()] == speakers.split()
    assert world.summary().status is status
    assert [step.seq for step in world.history()] == list(range(len(world.history())))
    assert_same(world, world, "undisturbed")


def test_results_keep_the_order_of_the_calls() -> None:
    world, _ = undisturbed(JOURNEYS["tools"])
    asked, answered = world.history()[1:3]
    assert [result.tool_call_id for result in answered.results] == [call.id for call in asked.calls]
    assert [result.result for result in answered.results] == [3, 7, None, None]
    assert "may call: add, handoff" in str(answered.results[2].error)
    assert "not JSON" in str(answered.results[3].error)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_every_message_may_come_twice(name: str, late: bool) -> None:
    expected, _ = undisturbed(JOURNEYS[name])
    journey = JOURNEYS[name]
    world = journey.world()
    deliver, before = world.deliver, list[Message]()

    def twice(message: Message) -> None:
        deliver(message)
        before.append(message)
        for again in before if late else [message]:
            deliver(again)

    world.deliver = twice  # type: ignore[method-assign]
    journey.run(world)
    assert_same(world, expected, "each message twice")


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_message_is_sent_again_by_the_sweeper(name: str) -> None:
    journey = JOURNEYS[name]
    expected, _ = undisturbed(journey)
    for n in range(1, len(expected.dispatcher.sent) + 1):
        world = journey.world()
        deliver, count = world.deliver, Counter[str]()

        def lossy(message: Message, n: int = n, count: Any = count, deliver: Any = deliver) -> None:
            count["messages"] += 1
            if count["messages"] != n:
                deliver(message)

        world.deliver = lossy  # type: ignore[method-assign]
        journey.run(world)
        assert_same(world, expected, f"letter {n} was lost")


@pytest.mark.parametrize("name", NAMES)
def test_no_message_at_all_arrives_but_those_of_the_sweeper(name: str) -> None:
    journey = JOURNEYS[name]
    expected, _ = undisturbed(journey)
    world = journey.world()
    drain = world.drain

    def deaf(limit: int = 0) -> None:
        drain() if deaf.__dict__.pop("rang", False) else world.dispatcher.queue.clear()

    sweep = world.sweep

    def ringing() -> None:
        sweep()
        deaf.__dict__["rang"] = True

    world.drain, world.sweep = deaf, ringing  # type: ignore[method-assign]
    journey.run(world)
    assert_same(world, expected, "only what the sweeper sends arrives")


def set_back(journey: Journey, n: int, lost: int, swept: bool = False) -> World:
    """The run in which Redis loses, after its n-th port call, what the last ones wrote: as after a failover.

    Where it is `swept` a sweeper looks at once, in the middle of whatever made that call.
    """
    kept: list[Any] = []
    worlds: list[World] = []

    def watch(name: str, call: Any) -> Any:
        answer = call()
        kept.append(worlds[0].server.copy() if len(kept) < n else None)
        if len(kept) == n:
            worlds[0].server.restore(kept[n - 1 - lost])
            if swept:
                worlds[0].watch = make_call
                worlds[0].sweep()
        return answer

    worlds.append(journey.world(watch))
    return journey.run(worlds[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lost", [2, 9])
def test_redis_may_lose_the_newest_of_what_it_held(name: str, lost: int) -> None:
    journey = JOURNEYS[name]
    expected, calls = undisturbed(journey)
    for n in range(lost + 1, calls + 1, 5):
        world = set_back(journey, n, lost)
        assert [comparable_step(step) for step in world.history()] == [
            comparable_step(step) for step in expected.history()
        ], f"set back by {lost} after port call {n}"


@pytest.mark.parametrize("name", NAMES)
def test_a_follower_misses_no_step_and_no_end_when_redis_lost_the_newest(name: str) -> None:
    """What has a number that it had is dropped: so after the loss numbers must not come twice."""
    journey = JOURNEYS[name]
    _, calls = undisturbed(journey)
    for n in range(10, calls + 1, 5):
        world = set_back(journey, n, 9)
        items = items_of(_as_followed(world), partial(world.histories.read, TASK))
        reader = read_items(items)
        view = MergedStream(Cursor.parse(items[-1].cursor), partial(world.histories.read, TASK))
        for item in view.missing_steps():  # as Task.stream does for a task that has ended before the sweeper looked
            reader.show(item.data)
        assert reader.steps == world.history(), f"set back after port call {n}"


@pytest.mark.parametrize("name", ["sequential", "tools"])
@pytest.mark.parametrize(("lost", "swept"), [(2, False), (9, True)], ids=["unnoticed", "swept at once"])
def test_a_follower_has_the_whole_text_of_a_turn_in_which_redis_lost_the_newest(
    name: str, lost: int, swept: bool
) -> None:
    """The turn goes on, or its step was stored already: what was lost of its chunks must not be missing silently."""
    journey = JOURNEYS[name]
    _, calls = undisturbed(journey)
    for n in range(lost + 1, calls + 1):
        world = set_back(journey, n, lost, swept)
        reader = ItemReader()
        for item in items_of(_as_followed(world), partial(world.histories.read, TASK)):
            try:
                reader.show(item.data)
            except AssertionError as error:
                raise AssertionError(f"set back by {lost} after port call {n}: {error}") from error


def _as_followed(world: World) -> list[dict[str, Any]]:
    followed: list[dict[str, Any]] = []
    had: dict[tuple[str, bool], int] = {}
    for record in world.published():
        channel = (record["generation"], "chunks" in record)
        if record["seq"] > had.get(channel, 0):
            had[channel] = record["seq"]
            followed.append(record)
    return followed


def test_whatever_happens_is_told_once() -> None:
    journey = JOURNEYS["tools"]
    _, calls = undisturbed(journey)
    for n in range(1, calls + 1):
        world = struck(journey, n, True, crash)
        told = Counter((record["type"], _call_id(record)) for record in world.published())
        where = f"crash after port call {n}"
        for kind in ("event_task_start", "event_agent_handoff", "event_task_end"):
            assert told[kind, None] == 1, where
        for call in [call for step in world.history() for call in step.calls]:
            assert told["event_tool_call", call.id] == 1, where
            assert told["event_tool_result", call.id] == 1, where


def _call_id(record: dict[str, Any]) -> str | None:
    if record["type"] == "event_tool_call":
        return str(record["tool_call"]["id"])
    return str(record["tool_result"]["tool_call_id"]) if record["type"] == "event_tool_result" else None
