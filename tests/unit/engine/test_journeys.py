"""Whole runs, with and without faults: they always produce the same history."""

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

NO_FAULT = 10**9
JOURNEY_NAMES = sorted(JOURNEYS)


def run_without_fault(journey: Journey) -> tuple[World, int]:
    """Return the run without a fault, and its number of port calls."""
    count = Fault(NO_FAULT, lambda: None)
    return journey.run(journey.world(count)), len(count.seen)


def run_with_fault(journey: Journey, n: int, after: bool, act: Callable[[World], None]) -> World:
    """Return the run with `act` called at its n-th port call."""
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
    world, _ = run_without_fault(JOURNEYS[name])
    assert [step.agent_name for step in world.history()] == speakers.split()
    assert world.summary().status is status
    assert [step.seq for step in world.history()] == list(range(len(world.history())))
    assert_same(world, world, "undisturbed")


def test_results_keep_the_order_of_the_calls() -> None:
    world, _ = run_without_fault(JOURNEYS["tools"])
    asked, answered = world.history()[1:3]
    assert [result.tool_call_id for result in answered.results] == [call.id for call in asked.calls]
    assert [result.result for result in answered.results] == [3, 7, None, None]
    assert "may call: add, handoff" in str(answered.results[2].error)
    assert "not JSON" in str(answered.results[3].error)


@pytest.mark.parametrize("name", JOURNEY_NAMES)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_every_message_may_be_delivered_twice(name: str, late: bool) -> None:
    expected, _ = run_without_fault(JOURNEYS[name])
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


@pytest.mark.parametrize("name", JOURNEY_NAMES)
def test_the_sweeper_redelivers_every_lost_message(name: str) -> None:
    journey = JOURNEYS[name]
    expected, _ = run_without_fault(journey)
    for n in range(1, len(expected.dispatcher.sent) + 1):
        world = journey.world()
        deliver, count = world.deliver, Counter[str]()

        def deliver_unless_lost(message: Message, n: int = n, count: Any = count, deliver: Any = deliver) -> None:
            count["messages"] += 1
            if count["messages"] != n:
                deliver(message)

        world.deliver = deliver_unless_lost  # type: ignore[method-assign]
        journey.run(world)
        assert_same(world, expected, f"message {n} was lost")


@pytest.mark.parametrize("name", JOURNEY_NAMES)
def test_a_run_with_only_the_messages_of_the_sweeper_ends_the_same(name: str) -> None:
    journey = JOURNEYS[name]
    expected, _ = run_without_fault(journey)
    world = journey.world()
    drain = world.drain

    def drain_after_a_sweep(limit: int = 0) -> None:
        drain() if drain_after_a_sweep.__dict__.pop("rang", False) else world.dispatcher.queue.clear()

    sweep = world.sweep

    def sweep_and_mark() -> None:
        sweep()
        drain_after_a_sweep.__dict__["rang"] = True

    world.drain, world.sweep = drain_after_a_sweep, sweep_and_mark  # type: ignore[method-assign]
    journey.run(world)
    assert_same(world, expected, "only messages of the sweeper arrive")


def run_with_loss(journey: Journey, n: int, lost: int, swept: bool = False) -> World:
    """Return the run in which Redis loses, after its n-th port call, the writes of the last ones, as after a failover.

    If `swept`, a sweeper sweeps immediately, in the middle of the process that made that call.
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


@pytest.mark.parametrize("name", JOURNEY_NAMES)
@pytest.mark.parametrize("lost", [2, 9])
def test_a_loss_of_the_newest_writes_of_redis_changes_no_history(name: str, lost: int) -> None:
    journey = JOURNEYS[name]
    expected, calls = run_without_fault(journey)
    for n in range(lost + 1, calls + 1, 5):
        world = run_with_loss(journey, n, lost)
        assert [comparable_step(step) for step in world.history()] == [
            comparable_step(step) for step in expected.history()
        ], f"set back by {lost} after port call {n}"


@pytest.mark.parametrize("name", JOURNEY_NAMES)
def test_a_follower_misses_no_step_and_no_end_after_a_loss_of_the_newest_writes(name: str) -> None:
    """A follower drops an item with a number that it had, so numbers must not repeat after the loss."""
    journey = JOURNEYS[name]
    _, calls = run_without_fault(journey)
    for n in range(10, calls + 1, 5):
        world = run_with_loss(journey, n, 9)
        items = items_of(_as_followed(world), partial(world.histories.read, TASK))
        reader = read_items(items)
        view = MergedStream(Cursor.parse(items[-1].cursor), partial(world.histories.read, TASK))
        for item in view.missing_steps():  # as Task.stream does for a task that has ended before the next sweep
            reader.show(item.data)
        assert reader.steps == world.history(), f"set back after port call {n}"


@pytest.mark.parametrize("name", ["sequential", "tools"])
@pytest.mark.parametrize(("lost", "swept"), [(2, False), (9, True)], ids=["unnoticed", "swept at once"])
def test_a_follower_has_the_whole_text_of_a_turn_despite_a_loss_of_the_newest_writes(
    name: str, lost: int, swept: bool
) -> None:
    """The turn continues, or its step was stored already: a follower must notice that it lacks chunks."""
    journey = JOURNEYS[name]
    _, calls = run_without_fault(journey)
    for n in range(lost + 1, calls + 1):
        world = run_with_loss(journey, n, lost, swept)
        reader = ItemReader()
        for item in items_of(_as_followed(world), partial(world.histories.read, TASK)):
            try:
                reader.show(item.data)
            except AssertionError as error:
                raise AssertionError(f"set back by {lost} after port call {n}: {error}") from error


def _as_followed(world: World) -> list[dict[str, Any]]:
    followed: list[dict[str, Any]] = []
    received: dict[tuple[str, bool], int] = {}
    for record in world.published():
        channel = (record["generation"], "chunks" in record)
        if record["seq"] > received.get(channel, 0):
            received[channel] = record["seq"]
            followed.append(record)
    return followed


def test_every_event_is_published_once_despite_a_crash() -> None:
    journey = JOURNEYS["tools"]
    _, calls = run_without_fault(journey)
    for n in range(1, calls + 1):
        world = run_with_fault(journey, n, True, crash)
        events = Counter((record["type"], _call_id(record)) for record in world.published())
        where = f"crash after port call {n}"
        for kind in ("event_task_start", "event_agent_handoff", "event_task_end"):
            assert events[kind, None] == 1, where
        for call in [call for step in world.history() for call in step.calls]:
            assert events["event_tool_call", call.id] == 1, where
            assert events["event_tool_result", call.id] == 1, where


def _call_id(record: dict[str, Any]) -> str | None:
    if record["type"] == "event_tool_call":
        return str(record["tool_call"]["id"])
    return str(record["tool_result"]["tool_call_id"]) if record["type"] == "event_tool_result" else None
