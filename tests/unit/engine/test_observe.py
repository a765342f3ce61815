"""Telemetry of a task's work: each operation is recorded once, with its measurements."""

from typing import Any

from roboco.engine.run.tool_call import close_overdue_call
from roboco.ports.assignment import ToolAssignment
from roboco.ports.telemetry import (
    TOOL_SECONDS,
)
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import crash_at
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

PRICED_MODELS = {"small": {"model": "m1", "price_in": 1000.0, "price_out": 2000.0}}
TEAM = team_of(
    models=PRICED_MODELS,
    agents=[member("one", tools=["add"])],
    tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
)


def world_with_tool(add: Any = lambda args, context: 3) -> World:
    """Return a world whose agent calls a tool once and then answers."""
    return World(
        world_parts(lambda request: says("done") if own_turns(request) else says("", ("add", {"a": 1})), {"add": add})
    )


def test_a_call_killed_at_its_time_limit_is_recorded() -> None:
    world = world_with_tool()
    world.submit(TEAM)
    world.watch = crash_at("leases.claim_call", after=True, times=1)
    world.drain()
    [work] = [work for work in world.telemetry.operations if work.kind == "tool"]
    assert work.seq is not None
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    close_overdue_call(world.engine, ToolAssignment(TASK, work.seq, task.position.epoch, work.call_id, 1), 30.0)
    world.settle()
    assert world.telemetry.values(TOOL_SECONDS, "add", "error") == [30.0]
    assert {"agent": "one", "tool": "add", "error": "timeout"} in world.telemetry.annotations
