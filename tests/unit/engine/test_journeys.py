"""Whole runs of teams: their steps, results and events."""

import pytest

from roboco.domain.status import TaskStatus
from tests.support.memory_ports.journeys import JOURNEYS, assert_same


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
    world = JOURNEYS[name].run(JOURNEYS[name].world())
    assert [step.agent_name for step in world.history()] == speakers.split()
    assert world.summary().status is status
    assert [step.seq for step in world.history()] == list(range(len(world.history())))
    assert_same(world, world, "undisturbed")
