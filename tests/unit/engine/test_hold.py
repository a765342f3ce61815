"""Pause, step and resume: between which steps a task stands still."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import GRAPH, MANUAL, SEQUENTIAL, TOOLS, assert_same, assert_whole
from tests.support.memory_ports.model import said
from tests.support.memory_ports.watch import Crash, Fault, PortCall, make_call
from tests.support.memory_ports.world import World
from tests.unit.engine.test_receive import die


def begun(pause: bool = True) -> World:
    """A task that was paused before its first turn."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    if pause:
        world.pause()
    world.settle()
    return world


def test_a_paused_task_begins_no_step() -> None:
    world = begun()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)
    world.settle_for(5)
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 1)
    world.resume()
    world.settle()
    assert_same(world, begun(pause=False), "")


def test_a_turn_that_a_worker_has_begun_comes_to_its_end() -> None:
    journey = replace(SEQUENTIAL, live=lambda request, world: replace(said("done"), meanwhile=world.pause))
    world = journey.world()
    world.submit(SEQUENTIAL.team)
    world.settle()
    assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 2)
    assert world.history()[1].text == "done"


def test_a_turn_that_no_worker_has_begun_is_not_begun_after_a_pause() -> None:
    """Its message is on the way: the pause was accepted first."""
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
    assert_same(world, begun(pause=False), "")


def test_a_turn_is_begun_again_if_a_resume_comes_before_the_pause_was_looked_at() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    world.pause()
    world.resume()
    world.settle()
    assert_same(world, begun(pause=False), "")


def test_a_stop_charges_an_attempt_that_broke_before_the_pause() -> None:
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


def test_no_turn_begins_if_a_pause_comes_while_the_coordinator_decides() -> None:
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


def test_a_step_at_a_time() -> None:
    world = begun()
    for number in range(1, 5):
        world.step(f"step{number}")
        world.settle()
        assert len(world.history()) == 1 + number
        assert world.status() is TaskStatus.PAUSED
    world.resume()
    world.settle()
    assert_same(world, begun(pause=False), "")


def test_a_step_of_a_running_task_ends_the_one_that_is_made() -> None:
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


def test_the_same_request_again_does_nothing_more() -> None:
    world = begun()
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
    assert world.status() is TaskStatus.PAUSED, "a resume that comes again does not end a later pause"
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


def test_a_message_that_interrupts_is_taken_and_the_task_stays_paused() -> None:
    world = begun()
    world.interrupt("listen")
    world.settle()
    assert [step.text for step in world.history()] == ["go", "listen"]
    assert world.status() is TaskStatus.PAUSED


def test_a_paused_task_can_be_stopped() -> None:
    world = begun()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    for act in (world.pause, world.step, world.resume):
        with pytest.raises(UsageError, match="has ended"):
            act("late")


def test_who_resumes_a_task_that_is_not_paused_changes_nothing() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.resume()
    world.settle()
    assert_same(world, begun(pause=False), "")
    with pytest.raises(UsageError, match="no task"):
        world.pause(task_id="unknown")


def test_a_pause_outlasts_the_loss_of_redis() -> None:
    world = begun()
    world.server.wipe()
    world.sweep()
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    world.resume()
    world.server.wipe()
    world.sweep()
    world.settle()
    assert_whole(world, "")
    assert [step.text for step in world.history()] == [step.text for step in begun(pause=False).history()]


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_every_moment_of_a_pause_a_step_and_a_resume(after: bool) -> None:
    expected = GRAPH.run(GRAPH.world())
    n, struck = 0, True
    while struck:
        n += 1
        world = GRAPH.world()
        world.submit(GRAPH.team)
        world.pause()
        world.settle()
        world.watch = fault = Fault(n, die, after=after)
        world.step()
        world.settle()
        assert (world.status(), len(world.history())) == (TaskStatus.PAUSED, 2), n
        world.resume()
        world.settle()
        struck = fault.struck
        assert_same(world, expected, f"{n}")
    assert n > 40
