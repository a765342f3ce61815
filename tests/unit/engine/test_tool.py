"""tool: a call has one result, and an irreversible call runs at most once."""

from typing import Any

import pytest

from roboco.domain.history.part import unknown_outcome
from roboco.domain.history.step import TaskStep
from roboco.domain.paths import intent_path
from roboco.domain.status import TaskStatus
from roboco.engine.run.tool_call import LOST_REASON, close_overdue_call
from roboco.ports.telemetry import TOOL_SECONDS
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.dispatcher import ToolMessage
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash, crash_at, make_call, refusing
from tests.support.memory_ports.world import TASK, WORKER, World, team_of, world_parts

UNKNOWN_OUTCOME = unknown_outcome("", LOST_REASON, "tell").result.error


def world_with_payments(effect: str, calls: int = 1, attempts: int = 3) -> tuple[World, list[ToolContext]]:
    """Return a world whose agent makes payments, and the list of the runs that started."""
    runs: list[ToolContext] = []

    def pay(args: dict[str, Any], context: ToolContext) -> str:
        runs.append(context)
        return f"paid {args['to']}"

    def script(request: Any) -> Any:
        asked = [("pay", {"to": number}) for number in range(calls)]
        return says("done") if own_turns(request) else says("paying", *asked)

    parts = world_parts(script, {"pay": pay})
    world = World(parts)
    team = team_of(
        agents=[member("clerk", tools=["pay"])],
        tools=[{"name": "pay", "function": "shop.bank:pay", "effect": effect, "timeout": 30}],
    )
    world.submit(team)
    while not any(isinstance(message, ToolMessage) for message in world.dispatcher.queue):
        world.deliver(world.dispatcher.queue.popleft())
    return world, runs


@pytest.mark.parametrize("effect", ["pure", "irreversible"])
def test_a_call_whose_worker_lacks_the_module_fails_at_once_with_the_remedy(effect: str) -> None:
    world, runs = world_with_payments(effect)
    world.given.toolbox.missing = {"shop.bank"}
    world.deliver(next_tool(world))
    world.given.toolbox.missing = set()
    world.settle()
    [result] = results_step(world).results
    assert (result.error or "").startswith(
        f"not run: tools worker {WORKER!r} cannot run tool 'pay': module 'shop.bank'"
    )
    assert "; install 'shop.bank' where the tools workers run" in (result.error or "")
    assert not runs
    assert world.files.get(intent_path(TASK, result.tool_call_id)) is None


def test_a_turn_whose_worker_lacks_a_module_of_its_tools_fails_the_task() -> None:
    world = World(world_parts(lambda request: says("never"), {"pay": lambda args, context: "paid"}))
    world.given.toolbox.missing = {"shop.bank"}
    world.submit(team_of(agents=[member("clerk", tools=["pay"])], tools=[{"name": "pay", "function": "shop.bank:pay"}]))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    error = world.history()[-1].error
    assert error is not None
    assert error.code == "not_runnable"
    assert f"agents worker {WORKER!r} cannot describe the agent's tools: module 'shop.bank'" in error.message


def results_step(world: World) -> TaskStep:
    """Assert that the task has completed after the results. Return the step with the results."""
    assert [step.agent_name for step in world.history()] == ["user", "clerk", "tool_executor", "clerk"]
    assert world.summary().status is TaskStatus.COMPLETED
    step = world.history()[2]
    assert [result.tool_call_id for result in step.results] == [call.id for call in world.history()[1].calls]
    return step


def next_tool(world: World) -> ToolMessage:
    """Take the next message for the tools pool from the queue. Return it."""
    message = next(message for message in world.dispatcher.queue if isinstance(message, ToolMessage))
    world.dispatcher.queue.remove(message)
    return message


def test_an_outcome_that_cannot_be_stored_still_counts() -> None:
    world, runs = world_with_payments("irreversible")
    world.watch = refusing("files.put")
    world.deliver(next_tool(world))
    world.watch = make_call
    world.settle()
    assert len(runs) == 1
    assert results_step(world).results[0].result == "paid 0"


def test_the_outcome_of_a_killed_irreversible_call_is_unknown() -> None:
    """The outcome is examined immediately, although the lease of its worker is still valid."""
    world, runs = world_with_payments("irreversible")
    message = next_tool(world)
    world.watch = crash_at("toolbox.run", after=True)
    world.deliver(message)
    world.watch = make_call
    close_overdue_call(world.engine, message.assignment, 30.0)
    close_overdue_call(world.engine, message.assignment, 30.0)
    world.drain()
    assert results_step(world).results[0].error == UNKNOWN_OUTCOME
    assert len(runs) == 1


def test_a_call_that_is_killed_at_its_time_limit_is_an_error_with_its_measurement() -> None:
    world, _ = world_with_payments("pure")
    message = next_tool(world)
    world.watch = crash_at("toolbox.run")
    world.deliver(message)
    world.watch = make_call
    close_overdue_call(world.engine, message.assignment, 30.0)
    world.settle()
    assert results_step(world).results[0].error == "tool 'pay' was killed after 30 s"
    assert world.telemetry.values(TOOL_SECONDS, "pay", "error") == [30.0]
    assert {"agent": "clerk", "tool": "pay", "error": "timeout"} in world.telemetry.annotations


def test_an_irreversible_call_whose_worker_is_always_lost_is_an_unknown_outcome() -> None:
    world, runs = world_with_payments("irreversible")
    world.watch = crash_at("files.create", after=True)
    world.settle()
    error = str(results_step(world).results[0].error)
    assert error.startswith("outcome unknown: tool 'pay' was lost 4 times, ")
    assert not runs


def test_a_worker_that_hung_before_an_irreversible_call_does_not_run_it() -> None:
    """Its lease has expired meanwhile. It has started the call, so the next attempt does not run it either."""
    world, runs = world_with_payments("irreversible")

    def watch(name: str, call: Any) -> Any:
        if name == "files.create":
            world.watch = make_call
            world.clock.move(16)
            world.sweep()
        return call()

    world.watch = watch
    world.settle()
    assert not runs
    assert results_step(world).results[0].error == UNKNOWN_OUTCOME


@pytest.mark.parametrize("stored_first", [True, False])
def test_a_call_that_is_closed_during_a_slow_write_of_its_intent_does_not_run(stored_first: bool) -> None:
    """The write takes more than half a lease, so the worker checks its lease again before it runs the tool."""
    world, runs = world_with_payments("irreversible")
    message = next_tool(world)

    def create_slowly(name: str, call: Any) -> Any:
        if name != "files.create":
            return call()
        world.watch = make_call
        created = call() if stored_first else None
        world.clock.move(world.given.policy.lease / 2 + 1)
        close_overdue_call(world.engine, message.assignment, 30.0)
        return created if stored_first else call()

    world.watch = create_slowly
    world.deliver(message)
    world.settle()
    assert not runs
    assert results_step(world).results[0].error == UNKNOWN_OUTCOME


def test_late_writes_of_a_lost_worker_do_not_let_a_call_run_twice() -> None:
    """Each write to the workspace is repeated at the end of the call of the next attempt, and after its crash."""
    world, runs = world_with_payments("irreversible")
    writes: list[Any] = []
    late: list[Any] = []

    def watch(name: str, call: Any) -> Any:
        if name == "files.create" and not late:
            late.append(True)
            world.clock.move(16)
            world.sweep()
        if name.startswith("files.") and name not in ("files.get", "files.names"):
            writes.append(call)
        if name == "toolbox.run":
            answer = call()
            for write in list(writes):
                write()
            if len(runs) == 1:
                raise Crash
            return answer
        return call()

    world.watch = watch
    world.settle()
    assert len(runs) <= 1
