"""Telemetry of a task's work: each operation is recorded once, with its measurements."""

from typing import Any

from roboco.domain.status import TaskStatus
from roboco.engine.run.tool_call import close_overdue_call
from roboco.errors import ModelError
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.model import Request
from roboco.ports.telemetry import (
    ATTEMPT_RESTARTS,
    COST,
    INTERRUPT_LATENCY_SECONDS,
    LEASE_EXPIRATIONS,
    TASKS,
    TOKENS,
    TOOL_SECONDS,
    TURN_SECONDS,
)
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

PRICED_MODELS = {"small": {"model": "m1", "price_in": 1000.0, "price_out": 2000.0}}
TEAM = team_of(
    models=PRICED_MODELS,
    agents=[member("one", tools=["add"])],
    tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
)


def fail(args: Any, context: Any) -> Any:
    raise ValueError("no sum")


def world_with_tool(add: Any = lambda args, context: 3) -> World:
    """Return a world whose agent calls a tool once and then answers."""
    return World(
        world_parts(lambda request: says("done") if own_turns(request) else says("", ("add", {"a": 1})), {"add": add})
    )


def crash_once(world: World, port_call: str) -> None:
    """Have the process crash after the next call of this port."""

    def watch(name: str, call: Any) -> Any:
        answer = call()
        if name == port_call:
            world.watch = make_call
            raise Crash
        return answer

    world.watch = watch


def test_a_task_is_recorded_from_submit_to_end() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    world.settle()
    telemetry = world.telemetry
    assert world.summary().status is TaskStatus.COMPLETED
    assert len(telemetry.values(TURN_SECONDS, "m1")) == 2
    assert all(seconds > 0 for seconds in telemetry.values(TURN_SECONDS, "m1"))
    assert sum(telemetry.values(TOKENS, "in", "m1")) == world.summary().tokens_in == 20
    assert sum(telemetry.values(TOKENS, "out", "m1")) == world.summary().tokens_out == 10
    assert sum(telemetry.values(COST, "m1")) == world.summary().cost > 0
    assert len(telemetry.values(TOOL_SECONDS, "add", "ok")) == 1
    assert telemetry.values(TASKS, "completed") == [1]
    assert not telemetry.values(ATTEMPT_RESTARTS, "turn")
    assert [task.status for task in telemetry.tasks] == [TaskStatus.COMPLETED]
    kinds = [work.kind for work in telemetry.operations]
    assert kinds[0] == "submit"
    assert (kinds.count("turn"), kinds.count("tool")) == (2, 1)
    assert {work.task_id for work in telemetry.operations} == {TASK}
    facts = {work.kind: facts for work, facts in zip(telemetry.operations, telemetry.annotations, strict=True)}
    assert facts["tool"] == {"agent": "one", "tool": "add"}
    assert facts["turn"] == {"agent": "one", "model": "m1", "tokens_in": 10, "tokens_out": 5}


def test_a_failed_tool_is_recorded_as_an_error() -> None:
    world = world_with_tool(fail)
    world.submit(TEAM)
    world.settle()
    assert len(world.telemetry.values(TOOL_SECONDS, "add", "error")) == 1
    assert {"agent": "one", "tool": "add", "error": "tool_error"} in world.telemetry.annotations


def test_a_turn_that_is_delivered_twice_is_recorded_once() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    world.drain()
    first = next(work for work in world.telemetry.operations if work.kind == "turn")
    assert first.seq is not None
    assert first.attempt is not None
    world.deliver(TurnMessage(TurnAssignment(TASK, first.seq, 1, first.attempt), "one"))
    assert world.telemetry.annotations[-1] is None
    assert len(world.telemetry.values(TURN_SECONDS, "m1")) == 2


def test_a_worker_lost_in_a_turn_is_recorded() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    crash_once(world, "leases.claim_turn")
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.telemetry.values(LEASE_EXPIRATIONS, "turn") == world.telemetry.values(ATTEMPT_RESTARTS, "turn") == [1]
    assert not world.telemetry.values(LEASE_EXPIRATIONS, "tool")


def test_a_worker_lost_in_a_call_is_recorded() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    crash_once(world, "leases.claim_call")
    world.settle()
    assert world.telemetry.values(LEASE_EXPIRATIONS, "tool") == world.telemetry.values(ATTEMPT_RESTARTS, "tool") == [1]


def test_an_interrupted_answer_is_a_restart_and_no_lost_lease() -> None:
    answers = iter([ScriptedReply(("ha",), error=ModelError("connection", "broke", True)), says("whole")])
    world = World(world_parts(lambda request: next(answers)))
    world.submit(team_of(models=PRICED_MODELS, agents=[member("one")]))
    world.settle()
    assert world.telemetry.values(ATTEMPT_RESTARTS, "turn") == [1]
    assert not world.telemetry.values(LEASE_EXPIRATIONS, "turn")


def test_an_interruption_is_measured_until_the_connection_is_closed() -> None:
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if any(message["content"] == "shorter" for message in request.messages):
            return says("brief")
        return ScriptedReply(("half",), meanwhile=lambda: worlds[0].interrupt("shorter"))

    worlds.append(World(world_parts(script)))
    worlds[0].submit(team_of(agents=[member("one")]))
    worlds[0].settle()
    [seconds] = worlds[0].telemetry.values(INTERRUPT_LATENCY_SECONDS)
    assert 0 < seconds < 1
    assert any(facts and facts.get("finish_reason") == "interrupted" for facts in worlds[0].telemetry.annotations)


def test_a_call_killed_at_its_time_limit_is_recorded() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    crash_once(world, "leases.claim_call")
    world.drain()
    [work] = [work for work in world.telemetry.operations if work.kind == "tool"]
    assert work.seq is not None
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    close_overdue_call(world.engine, ToolAssignment(TASK, work.seq, task.position.epoch, work.call_id, 1), 30.0)
    world.settle()
    assert world.telemetry.values(TOOL_SECONDS, "add", "error") == [30.0]
    assert {"agent": "one", "tool": "add", "error": "timeout"} in world.telemetry.annotations
