"""A backlog is not multiplied, its lost messages are found, and work that is claimed late is still monitored."""

from roboco.engine.coordinate.advance import advance
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import GRAPH
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


def queued_turns(world: World) -> list[TurnMessage]:
    return [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]


def sweep_for(world: World, seconds: float, interval: float = 5.0) -> None:
    """Sweep every few seconds for this time."""
    end = world.clock.now() + seconds
    while world.clock.now() < end:
        world.clock.move(interval)
        world.sweep()


def test_a_backlog_of_hours_is_not_multiplied_and_is_completed() -> None:
    world = world_with_queued_turns(20)
    sweep_for(world, 5 * HOUR, interval=30.0)
    assert len(queued_turns(world)) == 20
    world.drain()
    assert all(len(world.history(f"task_{number}")) == 7 for number in range(20))
    assert len(world.given.model.requests) == 20 * 6


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
