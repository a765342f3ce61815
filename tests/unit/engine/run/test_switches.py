"""Switches: work that is switched off waits, with the reason and at no cost, and continues when it is switched on."""

from typing import Any

import pytest

from roboco.domain.paths import SWITCHES_FILE
from roboco.domain.status import TaskStatus
from roboco.domain.switch import MAX_SWITCHES
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash, Fault, Watch, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

TEAM = team_of(agents=[member("one", tools=["add"])], tools=[{"name": "add", "function": "shop.sums:add"}])


def switch_off(world: World, target: str, reason: str = "it is broken", interrupt: bool = False) -> None:
    world.engine.process.switches.switch_off(target, reason, interrupt, None, world.engine.now())
    world.clock.move(1)  # longer than a process relies on what it has read


def switch_on(world: World, target: str) -> None:
    world.engine.process.switches.switch_on(target)
    world.clock.move(1)


@pytest.fixture
def world() -> World:
    def answer(request: Any) -> Any:
        answered = any(message.get("role") == "tool" for message in request.messages)
        return says("done") if answered else says("", ("add", {}))

    world = World(world_parts(answer, {"add": lambda args, context: 3}))
    world.engine.process.switches.repair()
    return world


def take(world: World, kind: type[Any]) -> Any:
    [message] = [message for message in world.dispatcher.queue if isinstance(message, kind)]
    world.dispatcher.queue.remove(message)
    return message


TWO = team_of(
    agents=[member("one", tools=["add", "sub"])],
    tools=[{"name": "add", "function": "shop.sums:add"}, {"name": "sub", "function": "shop.sums:sub"}],
)


def world_with_two_calls() -> tuple[World, ToolMessage, ToolMessage]:
    """Return a world whose agent has called both tools, with the messages of the calls."""

    def answer(request: Any) -> Any:
        answered = any(message.get("role") == "tool" for message in request.messages)
        return says("done") if answered else says("", ("add", {}), ("sub", {}))

    world = World(world_parts(answer, {"add": lambda args, context: 3, "sub": lambda args, context: 1}))
    world.engine.process.switches.repair()
    world.submit(TWO, at_once=True)
    run_turn(world.engine, take(world, TurnMessage).assignment)
    first, second = world.dispatcher.queue
    assert isinstance(first, ToolMessage)
    assert isinstance(second, ToolMessage)
    world.dispatcher.queue.clear()
    return world, first, second


def reason_of(world: World) -> str:
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    return task.position.reason


def run_while_switching(first_off: bool, number: int) -> Fault:
    """Run the first call in a worker, while an operator switches it on or off before the worker's call of a number."""
    world, first, second = world_with_two_calls()
    other = world.process().process.switches
    if first_off:
        switch_off(world, "tool:add")

    def change() -> None:
        world.watch = make_call
        if first_off:
            other.switch_on("tool:add")
        else:
            other.switch_off("tool:add", "it is broken", True, None, world.engine.now())
        world.clock.move(1)
        world.watch = fault

    world.watch = fault = Fault(number, change)
    run_call(world.engine, first.assignment)
    world.watch = make_call
    run_call(world.engine, second.assignment)
    world.settle_for(2)
    other.switch_on("tool:add")
    world.clock.move(30)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED, f"{number} {fault.seen[-1]}"
    assert len(world.given.toolbox.runs) == 2, f"{number} {fault.seen[-1]}"
    assert "is switched off" not in reason_of(world), f"{number} {fault.seen[-1]}"
    return fault


@pytest.mark.parametrize("first_off", [False, True])
def test_a_call_runs_once_whenever_it_is_switched_off_or_on_while_workers_claim_it(first_off: bool) -> None:
    number = 1
    while run_while_switching(first_off, number).struck:
        number += 1
    assert number > 5


def test_switches_survive_a_loss_of_redis_and_an_old_copy(world: World) -> None:
    switch_off(world, "model:m")
    old = world.server.held.switches
    switch_off(world, "tool:t")
    for lost in (None, old):
        world.server.held.switches = lost
        other = world.process().process.switches
        if lost is not None:
            other.repair()  # as coordinators do
        assert [switch.target for switch in other.current().off] == ["model:m", "tool:t"]


def test_the_last_known_switches_count_while_no_server_answers(world: World) -> None:
    switch_off(world, "model:m")
    assert world.engine.process.switches.current().off
    world.clock.move(60)

    def fail(name: str, call: Any) -> Any:
        raise TransientError("away")

    world.watch = fail
    assert [switch.target for switch in world.engine.process.switches.current().off] == ["model:m"]


def test_a_switch_is_recorded_while_redis_is_away_and_not_if_redis_refuses_its_user(world: World) -> None:
    def answer(error: Exception) -> Watch:
        def watch(name: str, call: Any) -> Any:
            if name == "workers.put_switches":
                raise error
            return call()

        return watch

    world.watch = answer(PermissionError("this user has no right"))
    with pytest.raises(PermissionError):
        switch_off(world, "model:m")
    assert world.engine.process.switches.stored().off == ()
    world.watch = answer(TransientError("away"))
    with pytest.raises(TransientError):
        switch_off(world, "model:m")
    assert [switch.target for switch in world.engine.process.switches.stored().off] == ["model:m"]


def test_a_switch_is_replaced_and_their_number_is_bounded(world: World) -> None:
    switch_off(world, "model:m", "first")
    switch_off(world, "model:m", "second")
    assert [switch.reason for switch in world.engine.process.switches.stored().off] == ["second"]
    for number in range(MAX_SWITCHES - 1):
        switch_off(world, f"model:{number}")
    with pytest.raises(UsageError, match="is the most"):
        switch_off(world, "model:another")
    assert world.files.get(SWITCHES_FILE)


def test_a_record_that_cannot_be_read_holds_work_back_and_costs_no_task_an_attempt(world: World) -> None:
    world.submit(TEAM, at_once=True)
    order = take(world, TurnMessage).assignment
    world.files.put(SWITCHES_FILE, b"{")
    world.server.held.switches = None
    engine = world.process()
    for _ in range(10):
        with pytest.raises(TransientError, match="Restore"):
            run_turn(engine, order)
        world.clock.move(60)
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert (task.position.status, task.attempt.number, task.attempt.claimed) == (TaskStatus.RUNNING, 1, False)
    world.files.put(SWITCHES_FILE, b"{}")
    run_turn(engine, order)
    assert take(world, ToolMessage)


def test_calls_continue_if_the_sweeper_that_finds_them_switched_on_dies_before_any_call() -> None:
    struck, number = True, 0
    while struck:
        number += 1
        world, first, second = world_with_two_calls()
        switch_off(world, "queue:tools")
        for message in (first, second):
            run_call(world.engine, message.assignment)
        switch_on(world, "queue:tools")
        world.watch = fault = Fault(number, Crash())
        world.clock.move(30)
        world.sweep()
        world.watch = make_call
        struck = fault.struck
        world.settle()
        assert world.summary().status is TaskStatus.COMPLETED, f"{number} {fault.seen[-1]}"
        assert "is switched off" not in reason_of(world), f"{number} {fault.seen[-1]}"
        assert len(world.given.toolbox.runs) == 2, f"{number} {fault.seen[-1]}"
    assert number > 12
