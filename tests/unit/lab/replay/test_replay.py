"""replay: compare each recorded decision of a history with the decision of a team."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.history.part import ErrorPart, TextPart
from roboco.domain.history.step import ORCHESTRATOR, TaskStep
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.lab.replay.replay import ReplayStep, replay
from tests.support.memory_ports.journeys import GRAPH
from tests.unit.domain.recorded_tasks import RECORDED_TASKS, graph_task


def change_team(team: Team, **fields: Any) -> Team:
    """Return the team with these fields replaced."""
    return validate_team(team.model_dump(mode="json", by_alias=True, exclude_none=True) | fields)


def differences(positions: tuple[ReplayStep, ...]) -> dict[int | None, str]:
    """Return the comparisons other than "same", by position."""
    return {position.seq: position.comparison for position in positions if position.comparison != "same"}


def with_step(
    task: RecordedTask, *, code: str | None = None, message: str = "why", seconds: float = 1.0
) -> RecordedTask:
    """Return the task with one more step of the orchestrator, `seconds` after its start: an error, or a text."""
    part = TextPart(text=message) if code is None else ErrorPart(code=code, message=message)
    step = task.steps[-1].model_copy(
        update={
            "step_id": "step_more",
            "seq": len(task.steps),
            "agent_name": ORCHESTRATOR,
            "parts": (part,),
            "metadata": {"limit": "writer"} if code == "limit" else {},
            "created_at": task.started_at.fromtimestamp(task.started_at.timestamp() + seconds, task.started_at.tzinfo),
        }
    )
    return replace(task, steps=(*task.steps, step), status=TaskStatus.FAILED, reason=message)


@pytest.mark.parametrize("name", RECORDED_TASKS)
def test_a_history_follows_from_its_team(name: str) -> None:
    task = RECORDED_TASKS[name]()
    positions = replay(task)
    assert differences(positions) == {}
    at_rest = task.status.ended or task.status.waiting
    assert len(positions) == len(task.steps) - task.first_decided + at_rest


@pytest.mark.parametrize("field", ["agent_name", "routing", "parts"])
def test_a_forged_step_is_found(field: str) -> None:
    task = graph_task()
    step = task.steps[4]
    forged: dict[str, TaskStep] = {
        "agent_name": step.model_copy(update={"agent_name": "writer"}),
        "routing": step.model_copy(update={"metadata": step.metadata | {"routing": {"rule": "a whim"}}}),
        "parts": step.model_copy(update={"parts": (TextPart(text="APPROVED"),)}),
    }
    steps = (*task.steps[:4], forged[field], *task.steps[5:])
    found = differences(replay(replace(task, steps=steps)))
    assert found[5 if field == "parts" else 4] == "differs"


@pytest.mark.parametrize("code", ["attempts", "limit", "router_lost", "weather", None])
def test_a_step_that_no_history_determines_depends_on_the_moment(code: str | None) -> None:
    task = graph_task()
    cut = replace(task, steps=task.steps[:3])
    [position] = [one for one in replay(with_step(cut, code=code, message="a note of a later release")) if one.seq == 3]
    assert position.comparison == "depends on the moment"
    assert "no history records" in position.note


# --- another team -------------------------------------------------------------------------------------------


def reroute(**graph: Any) -> Team:
    return change_team(GRAPH.team, collaboration_model={"type": "graph", "routing_graph": graph})


def test_a_changed_edge_differs() -> None:
    other = reroute(writer=["critic"], critic=[{"to": "USER"}])
    positions = replay(graph_task(), other)
    assert differences(positions) == {3: "differs", 5: "differs", None: "differs"}
    assert positions[2].chosen.startswith("waits (user_turn)")
