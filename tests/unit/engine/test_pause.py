"""Pause, step and resume: the points of a run at which a task is paused."""

from roboco.domain.status import TaskStatus
from tests.support.memory_ports.journeys import SEQUENTIAL, assert_same
from tests.support.memory_ports.world import World


def paused_task(pause: bool = True) -> World:
    """Return the world of a task that was paused before its first turn."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    if pause:
        world.pause()
    world.settle()
    return world


def test_a_paused_task_runs_one_step_for_each_request() -> None:
    world = paused_task()
    for number in range(1, 5):
        world.step(f"step{number}")
        world.settle()
        assert len(world.history()) == 1 + number
        assert world.status() is TaskStatus.PAUSED
    world.resume()
    world.settle()
    assert_same(world, paused_task(pause=False), "")


def test_a_repeated_request_has_no_effect() -> None:
    world = paused_task()
    world.pause()
    world.step()
    world.settle()
    world.step()
    world.settle()
    assert len(world.history()) == 2
    world.resume()
    world.deliver(world.dispatcher.queue.popleft())
    world.pause("pause2")
    world.resume()
    world.settle()
    assert world.status() is TaskStatus.PAUSED, "a repeated resume does not end a later pause"
    world.resume("resume2")
    world.settle()
    assert world.status() is TaskStatus.COMPLETED
