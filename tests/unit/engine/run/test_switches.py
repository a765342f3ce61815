"""Switches: work that is switched off waits, with the reason and at no cost, and continues when it is switched on."""

from typing import Any

import pytest

from roboco.domain.paths import SWITCHES_FILE
from roboco.domain.status import TaskStatus
from roboco.domain.switch import MAX_SWITCHES
from roboco.engine.run.attempt_outcome import CallOutcome, SwitchedOff
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.sweeping import sweep
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


TARGETS = ["queue:agents", "queue:roboco.agents", "team:team", "agent:one", "agent:team/one"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_turn_that_is_switched_off_waits_with_the_reason_and_no_attempt(world: World, target: str) -> None:
    switch_off(world, target.replace("team/", f"{TEAM.name}/").replace("team:team", f"team:{TEAM.name}"))
    world.submit(TEAM, at_once=True)
    result = run_turn(world.engine, take(world, TurnMessage).assignment)
    assert isinstance(result, SwitchedOff)
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert (task.position.status, task.attempt.number, task.attempt.claimed) == (TaskStatus.RUNNING, 1, False)
    assert task.position.reason.endswith("is switched off: it is broken")
    assert [event["reason"] for event in world.published() if event["type"] == "event_status"][
        -1
    ] == task.position.reason


def test_the_sweeper_sends_no_message_while_it_is_switched_off_and_one_after_that(world: World) -> None:
    switch_off(world, "queue:agents")
    world.submit(TEAM, at_once=True)
    run_turn(world.engine, take(world, TurnMessage).assignment)
    for _ in range(10):
        world.clock.move(60)
        sweep(world.engine, world.server)
    assert not world.dispatcher.queue
    switch_on(world, "queue:agents")
    world.clock.move(60)
    sweep(world.engine, world.server)
    assert take(world, TurnMessage).assignment.attempt == 1
    assert len([event for event in world.published() if "is switched off" in event.get("reason", "")]) == 1


def test_a_call_that_is_switched_off_waits_and_continues(world: World) -> None:
    world.submit(TEAM, at_once=True)
    run_turn(world.engine, take(world, TurnMessage).assignment)
    switch_off(world, "tool:add")
    order = take(world, ToolMessage).assignment
    assert isinstance(run_call(world.engine, order), SwitchedOff)
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert task.position.reason == "tool:add is switched off: it is broken"
    for _ in range(10):
        world.clock.move(60)
        sweep(world.engine, world.server)
    assert not world.dispatcher.queue
    switch_on(world, "tool:add")
    world.clock.move(60)
    sweep(world.engine, world.server)
    again = take(world, ToolMessage).assignment
    assert again == order
    assert run_call(world.engine, again) is CallOutcome.DONE
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert task.position.reason == ""


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


def sweep_in(world: World, seconds: float) -> None:
    world.clock.move(seconds)
    sweep(world.engine, world.server)


def test_a_task_shows_why_a_call_waits_while_another_call_of_the_step_runs() -> None:
    world, first, second = world_with_two_calls()
    switch_off(world, "tool:add")
    assert isinstance(run_call(world.engine, first.assignment), SwitchedOff)
    assert run_call(world.engine, second.assignment) is CallOutcome.DONE
    assert reason_of(world) == "tool:add is switched off: it is broken"
    switch_on(world, "tool:add")
    sweep_in(world, 30)
    assert reason_of(world) == ""
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_task_shows_the_switch_that_is_left() -> None:
    world, first, second = world_with_two_calls()
    switch_off(world, "tool:add", "one")
    switch_off(world, "tool:sub", "two")
    for message in (first, second):
        run_call(world.engine, message.assignment)
    assert reason_of(world) == "tool:sub is switched off: two"
    switch_on(world, "tool:sub")
    sweep_in(world, 30)
    assert take(world, ToolMessage).assignment == second.assignment
    assert reason_of(world) == "tool:add is switched off: one"


def test_a_call_that_is_switched_on_is_dispatched_though_another_one_waits_in_its_queue() -> None:
    """The check of a message that waits in its queue is postponed, up to 300 s. That of a switch is not."""
    world, first, second = world_with_two_calls()
    switch_off(world, "tool:add")
    run_call(world.engine, first.assignment)
    world.dispatcher.queue.append(second)
    for _ in range(12):
        sweep_in(world, 60)
    assert list(world.dispatcher.queue) == [second]
    switch_on(world, "tool:add")
    sweep_in(world, 30)
    assert [message.assignment for message in world.dispatcher.queue if isinstance(message, ToolMessage)] == [
        second.assignment,
        first.assignment,
    ]
    sweep_in(world, 5)
    assert len(world.dispatcher.queue) == 2, "a message that waits is not sent again"


def test_a_call_whose_message_is_lost_after_it_was_switched_on_is_dispatched_again() -> None:
    world, first, second = world_with_two_calls()
    switch_off(world, "tool:add")
    run_call(world.engine, first.assignment)
    run_call(world.engine, second.assignment)
    switch_on(world, "tool:add")
    sweep_in(world, 30)
    take(world, ToolMessage)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def crash() -> None:
    raise Crash


def test_calls_continue_if_the_sweeper_that_finds_them_switched_on_dies_before_any_call() -> None:
    struck, number = True, 0
    while struck:
        number += 1
        world, first, second = world_with_two_calls()
        switch_off(world, "queue:tools")
        for message in (first, second):
            run_call(world.engine, message.assignment)
        switch_on(world, "queue:tools")
        world.watch = fault = Fault(number, crash)
        world.clock.move(30)
        world.sweep()
        world.watch = make_call
        struck = fault.struck
        world.settle()
        assert world.summary().status is TaskStatus.COMPLETED, f"{number} {fault.seen[-1]}"
        assert "is switched off" not in reason_of(world), f"{number} {fault.seen[-1]}"
        assert len(world.given.toolbox.runs) == 2, f"{number} {fault.seen[-1]}"
    assert number > 12


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


def test_other_work_is_not_affected(world: World) -> None:
    for target in ("tool:other", "model:other", "team:other", "tenant:acme", "agent:other/one"):
        switch_off(world, target)
    world.submit(TEAM)
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user", "one", "tool_executor", "one"]


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


def test_an_old_copy_switches_nothing_on_again_in_a_process_that_knows_newer_ones(world: World) -> None:
    old = world.server.held.switches
    switch_off(world, "model:m")
    assert world.engine.process.switches.current().off
    world.server.held.switches = old  # a failover that lost the last write
    world.clock.move(60)
    assert [switch.target for switch in world.engine.process.switches.current().off] == ["model:m"]


def test_a_copy_that_cannot_be_read_is_replaced_by_the_record(world: World) -> None:
    switch_off(world, "model:m")
    held = world.server.held.switches
    assert held is not None
    world.server.held.switches = (held[0], "{")
    other = world.process().process.switches
    assert [switch.target for switch in other.current().off] == ["model:m"]
    other.repair()
    assert world.server.held.switches == held


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
