"""sweep: work that no worker does is dispatched again, a bounded number of times, and no task is forgotten."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from roboco.domain.ids import shard_of
from roboco.domain.paths import (
    inbox_path,
    team_path,
)
from roboco.domain.status import TaskStatus
from roboco.engine.coordinate.advance import advance
from roboco.engine.operate.sweep import FOREIGN_TASK_DELAY, sweep_shard
from roboco.errors import TransientError
from tests.support.memory_ports.clock import SkewedClock
from tests.support.memory_ports.journeys import GRAPH, MANUAL
from tests.support.memory_ports.model import says
from tests.support.memory_ports.sweeping import sweep
from tests.support.memory_ports.watch import crash_at, make_call
from tests.support.memory_ports.world import TASK, UNSCHEDULED_WAIT, World, team_of, world_parts


def with_lost_message(world: World) -> World:
    """Return the world with the first turn dispatched and its message lost."""
    world.submit(GRAPH.team)
    advance(world.engine, TASK)
    world.dispatcher.queue.clear()
    return world


def restarts(world: World) -> list[dict[str, Any]]:
    return [record for record in world.published() if record["type"] == "event_turn_restart"]


def test_an_unclaimed_turn_is_redelivered_with_growing_delays() -> None:
    world = with_lost_message(GRAPH.world())
    start = world.clock.now()
    dispatched_at: list[float] = []
    while world.clock.now() < start + 3600:
        world.sweep()
        dispatched_at += [world.clock.now() - start for _ in world.dispatcher.queue]
        world.dispatcher.queue.clear()
    gaps = [after - before for before, after in pairwise(dispatched_at)]
    assert 9 <= dispatched_at[0] <= 13
    assert all(after >= before - 2 for before, after in pairwise(gaps))
    assert max(gaps) <= world.given.policy.max_redelivery_delay + 5
    assert len(dispatched_at) < 20
    assert not restarts(world)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert len(world.given.model.requests) == 6


def test_the_lost_message_of_a_second_attempt_is_redelivered() -> None:
    world = GRAPH.world(crash_at("model.stream", times=1))
    world.submit(GRAPH.team)
    world.drain()
    while not restarts(world):
        world.clock.move(1)
        world.sweep()
    world.dispatcher.queue.clear()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_turn_that_raises_fails_the_task_immediately_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The turn would raise again."""

    def raise_an_error(request: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    world = GRAPH.world()
    world.given.model.script = raise_an_error
    world.submit(GRAPH.team)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert len(world.given.model.requests) == 1
    error = world.history()[1].error
    assert error is not None
    assert (error.code, error.message) == ("internal", "writer: ZeroDivisionError: division by zero")
    assert world.summary().reason == error.message
    assert world.events()[-1]["reason"] == error.message
    assert "Traceback" in caplog.text


def test_the_first_success_after_an_outage_hurries_the_other_entries() -> None:
    """The delays of three tasks have grown; two of them are checked soon after the first one succeeds."""
    world = World(world_parts(lambda request: says("")))
    engine = world.engine
    for _ in range(6):
        for name in ("b", "c"):
            engine.process.backoff.record_failure(name)
    engine.process.backoff.record_failure("a")
    for name, delay in (("a", 0.0), ("b", 30.0), ("c", 30.0)):
        engine.tasks.schedule.set(name, delay)
    assert sweep_shard(engine, shard_of("a"), 10, lambda *_: None) == 1
    due = [world.server.held.schedule[name] for name in ("b", "c")]
    assert [round(at - engine.clock.now(), 2) for at in due] == [0.0, 0.01]
    assert engine.process.backoff.record_failure("b") == 1.0


def unknown_phase() -> Any:
    raise ValueError("'dream' is not a valid Phase")


def no_answer() -> Any:
    raise TransientError("no answer")


@pytest.mark.parametrize("error", [unknown_phase, no_answer])
@pytest.mark.parametrize(
    "where",
    ["task_store.load", "files.names", "task_store.add_items", "leases.start_attempt", "leases.finish_attempts"],
)
@pytest.mark.parametrize("loss", ["wiped", "set back"])
def test_a_task_that_fails_at_any_port_delays_no_other(where: str, error: Any, loss: str) -> None:
    """The keys of the task are on a node that does not answer, or a newer release wrote its state."""
    world = GRAPH.world()
    for task_id in ("a", "b"):
        world.submit(GRAPH.team, task_id=task_id)

    def watch(name: str, call: Any) -> Any:
        return error() if name == where and "a" in _words(str(call.args[0])) else call()

    world.server.wipe() if loss == "wiped" else world.server.restore(world.server.copy())
    world.dispatcher.queue.clear()
    world.watch = watch
    for _ in range(40):
        world.clock.move(5)
        world.sweep()
        world.drain()
    assert world.summary("b").status is TaskStatus.COMPLETED
    world.watch = make_call
    for _ in range(1000):
        world.clock.move(5)
        world.sweep()
        world.drain()
        if world.is_settled("a"):
            break
    assert world.summary("a").status is TaskStatus.COMPLETED


def _words(text: str) -> list[str]:
    return text.replace("/", ":").split(":")


@pytest.mark.parametrize("skew", [-600.0, 600.0])
def test_the_clock_of_a_sweeper_does_not_matter(skew: float) -> None:
    """A lease of 15 s is recovered after 15 s, also by a sweeper whose clock is ten minutes off."""
    world = GRAPH.world()
    world.submit(GRAPH.team)
    advance(world.engine, TASK)
    world.watch = crash_at("model.stream", after=True)
    crashed_at = world.clock.now()
    world.drain()
    world.watch = make_call
    while not restarts(world):
        world.clock.move(1)
        sweep(replace(world.engine, clock=SkewedClock(world.clock, skew)), world.server)
        assert world.clock.now() - crashed_at < world.given.policy.lease + 5


def test_a_task_of_another_workspace_continues_soon_after_its_coordinator_has_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(world_parts(lambda request: says("done")))
    world.submit(team_of(agents=[{"name": "one", "prompt": "hi"}]))
    team_file = world.files.held.pop(team_path(TASK))
    world.engine = world.process()  # a process of a worker with another workspace
    world.drain()
    world.clock.move(UNSCHEDULED_WAIT)
    world.sweep()
    assert f"task {TASK!r} has no {team_path(TASK)} in this worker's workspace" in caplog.text
    assert "The sweeper retries it in 60 s" in caplog.text
    assert world.server.held.schedule[TASK] <= world.clock.now() + FOREIGN_TASK_DELAY
    world.files.held[team_path(TASK)] = team_file
    world.engine = world.process()
    world.clock.move(FOREIGN_TASK_DELAY)
    world.sweep()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_waiting_task_is_checked_after_doubling_times_and_then_once_a_day() -> None:
    world = MANUAL.at_rest()
    beginning = world.clock.now()
    checked_hours = []

    def watch(name: str, call: Any) -> Any:
        if name == "files.names" and call.args[0] == inbox_path(TASK):
            checked_hours.append((world.clock.now() - beginning) / 3600)
        return call()

    world.watch = watch
    for _ in range(4 * 24 * 12):
        world.clock.move(300.0)
        world.sweep()
    assert checked_hours == pytest.approx([1, 2, 4, 8, 16, 32, 56, 80], rel=0.2)


def test_a_task_that_has_lost_any_number_of_sweepers_is_abandoned() -> None:
    """A dead letter could not be stored for long, so that the sweeper has tried again and again."""
    world = MANUAL.at_rest()
    world.server.held.attempts[f"pass:{TASK}"] = 5000
    world.engine.tasks.schedule.set(TASK)
    world.sweep()
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert "5000 sweepers were lost" in world.summary().reason
