"""Whole runs of teams: their steps, results and events."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from tests.support.memory_ports.journeys import JOURNEYS, Journey, assert_same
from tests.support.memory_ports.watch import Crash, Fault
from tests.support.memory_ports.world import World

NO_FAULT = 10**9


def run_without_fault(journey: Journey) -> tuple[World, int]:
    """Return the run without a fault, and its number of port calls."""
    count = Fault(NO_FAULT, lambda: None)
    return journey.run(journey.world(count)), len(count.seen)


def run_with_fault(journey: Journey, n: int, after: bool, act: Callable[[World], None]) -> World:
    """Return the run with `act` called at its n-th port call."""
    worlds: list[World] = []
    fault = Fault(n, lambda: act(worlds[0]), after)
    worlds.append(journey.world(fault))
    journey.run(worlds[0])
    assert fault.struck
    return worlds[0]


def crash(world: World) -> None:
    raise Crash


@pytest.mark.parametrize(
    ("name", "speakers", "status"),
    [
        ("graph", "user writer critic writer critic writer critic", TaskStatus.COMPLETED),
        ("sequential", "user first second first second", TaskStatus.COMPLETED),
        ("manual", "user helper user helper user expert orchestrator", TaskStatus.CANCELLED),
        ("tools", "user lead tool_executor lead tool_executor closer", TaskStatus.COMPLETED),
        ("custom", "user third second first", TaskStatus.COMPLETED),
        ("failing", "user first second", TaskStatus.FAILED),
    ],
)
def test_a_team_runs_to_its_end(name: str, speakers: str, status: TaskStatus) -> None:
    world, _ = run_without_fault(JOURNEYS[name])
    assert [step.agent_name for step in world.history()] == speakers.split()
    assert world.summary().status is status
    assert [step.seq for step in world.history()] == list(range(len(world.history())))
    assert_same(world, world, "undisturbed")


def test_results_keep_the_order_of_the_calls() -> None:
    world, _ = run_without_fault(JOURNEYS["tools"])
    asked, answered = world.history()[1:3]
    assert [result.tool_call_id for result in answered.results] == [call.id for call in asked.calls]
    assert [result.result for result in answered.results] == [3, 7, None, None]
    assert "may call: add, handoff" in str(answered.results[2].error)
    assert "not JSON" in str(answered.results[3].error)


def test_every_event_is_published_once_despite_a_crash() -> None:
    journey = JOURNEYS["tools"]
    _, calls = run_without_fault(journey)
    for n in range(1, calls + 1):
        world = run_with_fault(journey, n, True, crash)
        events = Counter((record["type"], _call_id(record)) for record in world.published())
        where = f"crash after port call {n}"
        for kind in ("event_task_start", "event_agent_handoff", "event_task_end"):
            assert events[kind, None] == 1, where
        for call in [call for step in world.history() for call in step.calls]:
            assert events["event_tool_call", call.id] == 1, where
            assert events["event_tool_result", call.id] == 1, where


def _call_id(record: dict[str, Any]) -> str | None:
    if record["type"] == "event_tool_call":
        return str(record["tool_call"]["id"])
    return str(record["tool_result"]["tool_call_id"]) if record["type"] == "event_tool_result" else None
