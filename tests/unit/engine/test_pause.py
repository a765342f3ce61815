"""Pause, step and resume: the points of a run at which a task is paused."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL, TOOLS, assert_same
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import World


def paused_task(pause: bool = True) -> World:
    """Return the world of a task that was paused before its first turn."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    if pause:
        world.pause()
    world.settle()
    return world


def test_a_paused_task_starts_no_step() -> None:
    world = paused_task()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)
    world.settle_for(5)
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)
    world.resume()
    world.settle()
    assert_same(world, paused_task(pause=False), "")


def test_a_running_turn_ends_before_the_pause() -> None:
    journey = replace(SEQUENTIAL, live=lambda request, world: replace(says("done"), meanwhile=world.pause))
    world = journey.world()
    world.submit(SEQUENTIAL.team)
    world.settle()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 2)
    assert world.history()[1].text == "done"


def test_a_queued_turn_does_not_start_after_a_pause() -> None:
    """Its message is in the queue when the pause is accepted."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    message = world.dispatcher.queue.popleft()
    world.pause()
    world.deliver(message)
    assert world.given.model.requests == []
    world.settle()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)
    world.resume()
    world.settle()
    assert_same(world, paused_task(pause=False), "")


def test_a_turn_starts_if_a_resume_arrives_before_the_pause_is_applied() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    world.pause()
    world.resume()
    world.settle()
    assert_same(world, paused_task(pause=False), "")


def test_a_stop_charges_an_attempt_that_was_lost_before_the_pause() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)

    def watch(name: str, call: PortCall) -> Any:
        if name == "histories.append":
            raise Crash
        return call()

    world.deliver(world.dispatcher.queue.popleft())
    world.watch = watch
    world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    world.clock.move(world.given.policy.lease)
    world.sweep()
    world.pause()
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert world.history()[-1].metadata["unfinished_usage"]["agent"] == "first"


def test_no_turn_starts_if_a_pause_arrives_during_the_decision() -> None:
    world = SEQUENTIAL.world()

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.record_decision":
            world.watch = make_call
            world.pause()
        return call()

    world.submit(SEQUENTIAL.team)
    world.watch = watch
    world.settle()
    assert world.watch is make_call
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)


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


def test_a_step_request_pauses_a_running_task_after_its_turn() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    world.step()
    world.settle()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 2)


def test_calls_and_their_results_are_two_steps() -> None:
    world = TOOLS.world()
    world.submit(TOOLS.team)
    world.pause()
    world.settle()
    lengths = []
    for number in range(4):
        world.step(f"step{number}")
        world.settle()
        lengths.append((len(world.history()), len(world.given.toolbox.runs)))
    assert lengths == [(2, 0), (3, 2), (4, 2), (5, 3)]
    world.resume()
    world.settle()
    expected = TOOLS.run(TOOLS.world())
    assert_same(world, expected, "")


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


def test_messages_wait_while_a_task_is_paused() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    world.pause()
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    world.send("more")
    world.settle()
    assert [step.text for step in world.history() if step.agent_name == "user"] == ["go"]
    world.resume()
    world.settle()
    assert [step.text for step in world.history() if step.agent_name == "user"] == ["go", "more"]
    assert world.status() is TaskStatus.USER_TURN


def test_an_interruption_of_a_paused_task_is_applied_and_it_stays_paused() -> None:
    world = paused_task()
    world.interrupt("listen")
    world.settle()
    assert [step.text for step in world.history()] == ["go", "listen"]
    assert world.status() is TaskStatus.PAUSED


def test_a_paused_task_can_be_stopped() -> None:
    world = paused_task()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    for act in (world.pause, world.step, world.resume):
        with pytest.raises(UsageError, match="has ended"):
            act("late")


def test_a_resume_of_a_running_task_has_no_effect() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.resume()
    world.settle()
    assert_same(world, paused_task(pause=False), "")
    with pytest.raises(UsageError, match="no task"):
        world.pause(task_id="unknown")
