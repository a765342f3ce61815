"""A backlog is not multiplied, what got lost in it is found, and whoever takes work late is still looked after."""

import copy
from dataclasses import replace

import pytest

from roboco.domain.paths import open_marker_path, team_path
from roboco.engine.coordinator.advance import advance
from roboco.engine.engine import Policy
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import GRAPH, TOOLS
from tests.support.memory_ports.watch import Crash, make_call
from tests.support.memory_ports.world import World, given

HOUR = 3600.0


def queued(count: int) -> World:
    """A world in which so many tasks wait for their first turn, and no agents worker runs."""
    world = GRAPH.world()
    for number in range(count):
        world.submit(GRAPH.team, task_id=f"task_{number}")
        advance(world.engine, f"task_{number}")
    world.dispatcher.queue = type(world.dispatcher.queue)(turns(world))
    assert len(turns(world)) == count
    return world


def multiplied(world: World, count: int) -> None:
    """So many copies of the world's only task, as if each had been submitted."""
    [turn] = turns(world)
    for number in range(1, count):
        name = f"{turn.assignment.task_id}_{number}"
        with world.server as held:
            held.tasks[name] = copy.copy(held.tasks[turn.assignment.task_id])
            held.schedule[name] = held.schedule[turn.assignment.task_id]
        for path in (team_path, open_marker_path):
            world.files.held[path(name)] = world.files.held[path(turn.assignment.task_id)]
        world.dispatcher.turn(replace(turn.assignment, task_id=name), turn.agent)


def turns(world: World) -> list[TurnMessage]:
    return [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]


def sweep_for(world: World, seconds: float, pause: float = 5.0) -> None:
    """Sweep every few seconds for so long."""
    end = world.clock.now() + seconds
    while world.clock.now() < end:
        world.clock.move(pause)
        world.sweep()


def seconds_until_more(world: World) -> float:
    """How long it takes until a sweeper sends another message."""
    began, waiting = world.clock.now(), len(world.dispatcher.queue)
    while len(world.dispatcher.queue) == waiting:
        world.sweep()
    return world.clock.now() - began


def test_five_thousand_queued_turns_stay_five_thousand() -> None:
    world = queued(1)
    multiplied(world, 5000)
    sweep_for(world, 120, pause=0.5)
    assert min(task.redeliveries for task in world.server.held.tasks.values()) >= 1, "all of them were looked at"
    assert len(turns(world)) == 5000


def test_a_backlog_of_hours_is_not_multiplied_and_all_of_it_is_done() -> None:
    world = queued(50)
    sweep_for(world, 5 * HOUR)
    assert len(turns(world)) == 50
    world.drain()
    assert all(len(world.history(f"task_{number}")) == 7 for number in range(50))
    assert len(world.given.model.requests) == 50 * 6


def test_a_message_that_got_lost_in_a_backlog_is_sent_again_when_those_before_it_are_gone() -> None:
    world = queued(10)
    queue = world.dispatcher.queue
    lost = queue[4]
    queue.remove(lost)
    sweep_for(world, HOUR)
    assert len(queue) == 9, "older messages wait: ours may still be among them"
    world.drain()
    sweep_for(world, 600)
    assert list(queue) == [lost]


def test_a_turn_that_was_taken_late_is_restarted_one_lease_after_its_worker_died() -> None:
    """The pauses between two looks had grown to minutes by then."""
    world = queued(1)
    sweep_for(world, HOUR)
    world.watch = _die_at_the_model
    world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    assert seconds_until_more(world) < world.given.policy.lease + 2


@pytest.mark.parametrize("lease", [2.0, 15.0])
def test_a_pause_longer_than_the_lease_does_not_put_off_a_restart(lease: float) -> None:
    made = given(GRAPH.script, policy=Policy(lease=lease, redelivery_delay=300.0))
    world = World(made, _die_at_the_model)
    world.submit(GRAPH.team)
    world.drain()
    world.watch = make_call
    assert seconds_until_more(world) < lease + 2


def test_a_call_that_was_taken_late_is_restarted_one_lease_after_its_worker_died() -> None:
    world = calls_handed_out()
    calls = len(world.dispatcher.queue)
    sweep_for(world, HOUR)
    assert len(world.dispatcher.queue) == calls
    world.watch = _die_at_the_model
    while world.dispatcher.queue:
        world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    assert seconds_until_more(world) < world.given.policy.lease + 2


def _die_at_the_model(name: str, call: object) -> object:
    if name in ("model.stream", "toolbox.run"):
        raise Crash
    assert callable(call)
    return call()


def test_a_dead_call_is_noticed_while_another_one_of_its_step_waits() -> None:
    world = calls_handed_out()
    first = world.dispatcher.queue.popleft()
    sweep_for(world, HOUR)
    world.watch = _die_at_the_model
    world.deliver(first)
    world.watch = make_call
    assert seconds_until_more(world) < world.given.policy.lease + 2


def test_a_restarted_call_is_sent_once() -> None:
    world = calls_handed_out()
    world.watch = _die_at_the_model
    world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    others = len(world.dispatcher.queue)
    sweep_for(world, HOUR)
    assert len(world.dispatcher.queue) == others + 1


def calls_handed_out() -> World:
    """A world whose queue holds the calls of a step."""
    world = TOOLS.world()
    world.submit(TOOLS.team)
    while not isinstance(world.dispatcher.queue[0], ToolMessage):
        world.deliver(world.dispatcher.queue.popleft())
    return world
