"""rehearse: a team acts on the recorded answers, and repeats the task or differs from it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.action import AppendStep, Situation
from roboco.domain.decision.decide import decide
from roboco.domain.history.state import History, fold
from roboco.domain.history.step import TaskStep
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.recorded.recording import Recording
from roboco.domain.recorded.rehearsal import Rehearsal, rehearse
from roboco.domain.team.team import Team
from roboco.lab.replay.recording import recording_of
from tests.support.memory_ports.journeys import GRAPH
from tests.unit.domain.recorded_tasks import RECORDED_TASKS, graph_task
from tests.unit.lab.replay.test_replay import change_team, with_step


def rehearse_task(task: RecordedTask, team: Team | None = None) -> Rehearsal:
    """Return the rehearsal of the task from its recording as JSON."""
    recording = Recording.model_validate_json(recording_of(task).model_dump_json())
    return rehearse(team or task.team, recording, task.router)


@pytest.mark.parametrize("name", RECORDED_TASKS)
def test_the_same_team_does_the_same(name: str) -> None:
    task = RECORDED_TASKS[name]()
    rehearsal = rehearse_task(task)
    assert _contents(rehearsal.steps) == _contents(task.steps)
    assert [step.metadata.get("routing") for step in rehearsal.steps] == [
        step.metadata.get("routing") for step in task.steps
    ]
    if task.status.ended or task.status.waiting:
        assert (rehearsal.status, rehearsal.reason) == (task.status, task.reason)


def _contents(steps: Sequence[TaskStep]) -> list[tuple[str, str]]:
    """Return agents and parts. The ids of a map's calls derive from the ids of steps, which a rehearsal has not."""
    ids = [call.id for step in steps if step.is_map for call in step.calls]
    contents = [(step.agent_name, canonical_json(step.model_dump(mode="json")["parts"])) for step in steps]
    for number, call_id in enumerate(ids):
        contents = [(agent, parts.replace(call_id, f"call {number}")) for agent, parts in contents]
    return contents


@pytest.mark.parametrize(("code", "seconds"), [("attempts", 1), ("limit", 1), ("weather", 1), (None, 1)])
def test_a_step_that_depended_on_the_moment_keeps_its_position(code: str | None, seconds: float) -> None:
    task = graph_task()
    team = change_team(GRAPH.team, limits={"max_seconds": 30})
    cut = with_step(replace(task, team=team, steps=task.steps[:3]), code=code, seconds=seconds)
    rehearsal = rehearse_task(cut)
    assert [step.agent_name for step in rehearsal.steps][:4] == ["user", "writer", "critic", "orchestrator"]
    assert rehearsal.status == ("failed" if code else "running")


def test_a_time_limit_is_rehearsed_with_the_recorded_time() -> None:
    team = change_team(GRAPH.team, limits={"max_seconds": 30})
    cut = replace(graph_task(), team=team, steps=graph_task().steps[:3])
    action = decide(team, History(fold(cut.steps), tuple(cut.steps)), Situation(seconds=31))
    assert isinstance(action, AppendStep)
    ended = with_step(cut, code="limit", seconds=31)
    step = ended.steps[3].model_copy(update={"parts": action.parts, "metadata": action.metadata})
    task = replace(ended, steps=(*cut.steps, step), reason=str(step.error and step.error.message))
    rehearsal = rehearse_task(task)
    assert (rehearsal.agents, rehearsal.status, rehearsal.reason) == (["writer", "critic"], "failed", task.reason)
    longer = change_team(task.team, limits={"max_seconds": 60})
    assert rehearse_task(task, longer).agents == ["writer", "critic", "writer (nothing is recorded)"]
