"""A backlog is not multiplied, its lost messages are found, and work that is claimed late is still monitored."""

import copy
from dataclasses import replace

from roboco.domain.paths import open_marker_path, team_path
from roboco.engine.coordinate.advance import advance
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import GRAPH
from tests.support.memory_ports.watch import Crash, make_call
from tests.support.memory_ports.world import World

HOUR = 3600.0


def world_with_queued_turns(count: int) -> World:
    """Return a world in which this number of tasks wait for their first turn, and no agents worker runs."""
    world = GRAPH.world()
    for number in range(count):
        world.submit(GRAPH.team, task_id=f"task_{number}")
        advance(world.engine, f"task_{number}")
    world.dispatcher.queue = type(world.dispatcher.queue)(queued_turns(world))
    assert len(queued_turns(world)) == count
    return world


def multiply_task(world: World, count: int) -> None:
    """Copy the world's only task to this number of tasks, as if each had been submitted."""
    [turn] = queued_turns(world)
    for number in range(1, count):
        name = f"{turn.assignment.task_id}_{number}"
        with world.server as held:
            held.tasks[name] = copy.copy(held.tasks[turn.assignment.task_id])
            held.schedule[name] = held.schedule[turn.assignment.task_id]
        for path in (team_path, open_marker_path):
            world.files.held[path(name)] = world.files.held[path(turn.assignment.task_id)]
        world.dispatcher.turn(replace(turn.assignment, task_id=name), turn.agent)


def queued_turns(world: World) -> list[TurnMessage]:
    return [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]


def sweep_for(world: World, seconds: float, interval: float = 5.0) -> None:
    """Sweep every few seconds for this time."""
    end = world.clock.now() + seconds
    while world.clock.now() < end:
        world.clock.move(interval)
        world.sweep()


def seconds_until_more(world: World) -> float:
    """Return the seconds until a sweeper sends another message."""
    start, waiting = world.clock.now(), len(world.dispatcher.queue)
    while len(world.dispatcher.queue) == waiting:
        world.sweep()
    return world.clock.now() - start


def test_five_thousand_queued_turns_stay_five_thousand() -> None:
    world = world_with_queued_turns(1)
    multiply_task(world, 5000)
    sweep_for(world, 120, interval=0.5)
    assert min(task.redeliveries for task in world.server.held.tasks.values()) >= 1, "all of them were reconciled"
    assert len(queued_turns(world)) == 5000


def test_a_backlog_of_hours_is_not_multiplied_and_is_completed() -> None:
    world = world_with_queued_turns(50)
    sweep_for(world, 5 * HOUR)
    assert len(queued_turns(world)) == 50
    world.drain()
    assert all(len(world.history(f"task_{number}")) == 7 for number in range(50))
    assert len(world.given.model.requests) == 50 * 6


def test_a_lost_message_is_redelivered_when_no_older_message_waits() -> None:
    world = world_with_queued_turns(10)
    queue = world.dispatcher.queue
    lost = queue[4]
    queue.remove(lost)
    sweep_for(world, HOUR)
    assert len(queue) == 9, "older messages wait: the lost one may still be among them"
    world.drain()
    sweep_for(world, 600)
    assert list(queue) == [lost]


def test_a_turn_that_was_claimed_late_is_restarted_one_lease_after_the_crash() -> None:
    """By then, the time between two passes has grown to minutes."""
    world = world_with_queued_turns(1)
    sweep_for(world, HOUR)
    world.watch = _crash_in_model_or_tool
    world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    assert seconds_until_more(world) < world.given.policy.lease + 2


def _crash_in_model_or_tool(name: str, call: object) -> object:
    if name in ("model.stream", "toolbox.run"):
        raise Crash
    assert callable(call)
    return call()
