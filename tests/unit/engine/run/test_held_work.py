"""Held work: a worker that ends, or whose work is switched off, hands its work over once, whatever it does then."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.switch import SwitchableWork
from roboco.engine.held_work import SHUTDOWN_REASON
from roboco.engine.run.attempt_outcome import CallOutcome, TurnOutcome
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

TEAM = team_of(agents=[member("one")])


def take(world: World) -> TurnMessage:
    [message] = [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]
    world.dispatcher.queue.remove(message)
    return message


def world_with_turn() -> World:
    world = World(world_parts(lambda request: says("one two three")))
    world.engine.process.switches.repair()
    world.submit(TEAM, at_once=True)
    return world


def shut_down_at(world: World, operation: str, nth: int = 1) -> Callable[[], None]:
    """Shut the worker down before its nth call of this operation of a port. Return how to end the watch."""
    seen = 0

    def watch(name: str, call: Any) -> Any:
        nonlocal seen
        if name == operation:
            seen += 1
            if seen == nth:
                for item in world.engine.process.held_work._held:  # as `check` does, which waits for this thread
                    item.reason = SHUTDOWN_REASON
                    item.interrupt()
        return make_call(name, call)

    world.watch = watch
    return lambda: setattr(world, "watch", make_call)


def test_handed_over_attempts_do_not_count() -> None:
    world, times = world_with_turn(), 3
    for number in range(1, times + 1):
        order = take(world).assignment
        assert order.attempt == number
        stop = shut_down_at(world, "leases.emit", 2)
        assert run_turn(world.engine, order) is TurnOutcome.HANDED_OVER
        stop()
        task = world.engine.tasks.task_store.load(TASK, 1)
        assert task is not None
        assert (task.attempt.number, task.attempt.handovers, task.attempt.counted) == (number + 1, number, 1)
    assert run_turn(world.engine, take(world).assignment) is TurnOutcome.COMMITTED
    restarts = [event for event in world.published() if event["type"] == "event_turn_restart"]
    assert [restart["reason"] for restart in restarts] == [SHUTDOWN_REASON] * times


def test_a_turn_without_a_text_is_handed_over_as_the_same_attempt() -> None:
    world = world_with_turn()
    order = take(world).assignment
    stop = shut_down_at(world, "model.stream")
    assert run_turn(world.engine, order) is TurnOutcome.HANDED_OVER
    stop()
    assert take(world).assignment == order


def test_a_reply_that_is_complete_is_committed_and_not_handed_over() -> None:
    world = world_with_turn()
    stop = shut_down_at(world, "histories.append")
    assert run_turn(world.engine, take(world).assignment) is TurnOutcome.COMMITTED
    stop()
    assert [step.agent_name for step in world.history()] == ["user", "one"]
    assert "event_turn_restart" not in [event["type"] for event in world.published()]


def test_work_that_ends_is_not_taken() -> None:
    world = world_with_turn()
    assert run_turn(world.engine, take(world).assignment) is TurnOutcome.COMMITTED
    world.host.shutdown_due = True
    world.engine.process.held_work.check()
    assert (world.host.interrupts, world.host.kills) == (0, 0)


class InterruptedCallError(Exception):
    """The exception with which a pool interrupts a call."""


WORK = SwitchableWork("tools", "", "team", "one", tool="add")


def test_an_interruption_that_is_late_does_not_reach_the_work_after_it() -> None:
    held_work = world_with_turn().engine.process.held_work
    handed_over: list[str] = []
    ended_before: list[bool] = []

    def interrupt_late() -> None:
        with held_work._changed:
            assert held_work._changed.wait_for(lambda: not held_work._held, 60)  # its block has ended
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def raise_error(*_: Any) -> None:
        ended_before.append(item.ended.is_set())
        raise InterruptedCallError

    before = signal.signal(signal.SIGUSR1, raise_error)
    try:
        with held_work.holding(WORK, interrupt_late, handed_over.append) as item:
            item.reason = SHUTDOWN_REASON
            interrupter = threading.Thread(target=item.interrupt)
            interrupter.start()
        interrupter.join(60)
    except InterruptedCallError:
        interrupter.join(60)  # raised before its block was left: a pool reports it as the end of this work
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (ended_before, item.ended.is_set()) == ([False], True)
    assert handed_over == [SHUTDOWN_REASON]


ADDING = team_of(
    agents=[member("one", tools=["add"])],
    tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
)


def world_with_call(run: Callable[..., Any]) -> tuple[World, ToolMessage]:
    """Return a world whose agent has called a tool, and the message of the call."""
    world = World(world_parts(lambda request: says("", ("add", {})), {"add": run}))
    world.engine.process.switches.repair()
    world.submit(ADDING, at_once=True)
    run_turn(world.engine, take(world).assignment)
    message = world.dispatcher.queue.pop()
    assert isinstance(message, ToolMessage)
    return world, message


def interrupt_at(world: World, operation: str, after: bool) -> None:
    """Interrupt held work at this operation, as the signal of a pool does: by an exception in the thread of the work.

    The thread that interrupts it hands it over after its grace period, here at once.
    """

    def watch(name: str, call: Any) -> Any:
        answer = call() if name != operation or after else None
        if name == operation and (held := list(world.engine.process.held_work._held)):
            for item in held:
                item.reason = SHUTDOWN_REASON
                item.interrupt()
            raise InterruptedCallError
        return call() if name == operation and not after else answer

    world.watch = watch


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["leases.record_outcome", "dispatcher.advance"])
def test_a_call_is_not_interrupted_while_its_outcome_is_recorded(operation: str, after: bool) -> None:
    world, message = world_with_call(lambda args, context: 3)
    interrupt_at(world, operation, after)
    assert run_call(world.engine, message.assignment) is CallOutcome.DONE
    world.watch = make_call
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert task.calls[message.assignment.call_id].outcome is not None
    assert not any(isinstance(one, ToolMessage) for one in world.dispatcher.queue)


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_that_ends_as_it_is_interrupted_is_recorded_or_handed_over(fails: bool) -> None:
    """A result counts. An error may be the interruption, so another worker runs the call."""

    def run(args: Any, context: Any) -> int:
        for item in world.engine.process.held_work._held:
            item.reason = SHUTDOWN_REASON
            item.interrupt()
        if fails:
            raise InterruptedCallError
        return 3

    world, message = world_with_call(run)
    expected = CallOutcome.HANDED_OVER if fails else CallOutcome.DONE
    assert run_call(world.engine, message.assignment) is expected
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert (task.calls[message.assignment.call_id].outcome is None) is fails
    assert sum(isinstance(one, ToolMessage) for one in world.dispatcher.queue) == fails


def test_a_call_that_was_handed_over_before_its_outcome_is_recorded_is_shown_as_handed_over() -> None:
    def run(args: Any, context: Any) -> int:
        for item in world.engine.process.held_work._held:
            item.reason = SHUTDOWN_REASON
            item.interrupt()
            item.hand_over()  # the tool did not end in time
        return 3

    world, message = world_with_call(run)
    assert run_call(world.engine, message.assignment) is CallOutcome.HANDED_OVER
    assert sum(isinstance(one, ToolMessage) for one in world.dispatcher.queue) == 1


def test_an_interruption_that_fails_does_not_keep_other_work_from_its_own() -> None:
    world = world_with_turn()
    held_work, interrupted = world.engine.process.held_work, []

    def fail() -> None:
        raise OSError

    world.host.shutdown_due = True
    with (
        held_work.holding(WORK, fail, lambda reason: None) as first,
        held_work.holding(WORK, lambda: interrupted.append(1), lambda reason: None) as second,
    ):
        first.ended.set()  # so that `check` does not wait
        second.ended.set()
        held_work.check()
    assert interrupted == [1]
