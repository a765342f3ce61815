"""rehearse: a team acts on the recorded answers, and repeats the task or differs from it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.recorded.recording import Recording
from roboco.domain.recorded.rehearsal import Rehearsal, rehearse
from roboco.domain.team.team import Team
from roboco.lab.replay.recording import recording_of
from tests.support.memory_ports.journeys import GRAPH, MANUAL, TOOLS, member
from tests.support.memory_ports.world import team_of
from tests.unit.domain.recorded_tasks import RECORDED_TASKS, graph_task, recorded_task, run_journey, run_to_limit
from tests.unit.lab.replay.test_replay import change_team, end_at_time_limit, reroute, with_step


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


def test_a_rehearsal_lists_agents_rules_and_tools() -> None:
    rehearsal = rehearse_task(recorded_task(run_journey(TOOLS)))
    assert rehearsal.agents == ["lead", "lead", "closer"]
    assert rehearsal.rules == ["initial", "results", "handoff"]
    assert rehearsal.tools == [
        "add",
        "add",
        "nothing (error)",
        "add (error)",
        "add",
        "handoff (error)",
        "handoff",
    ]
    assert (rehearsal.status, rehearsal.reason) == ("completed", "after closer always")


def test_a_team_and_a_recording_may_be_json() -> None:
    task = graph_task()
    team = task.team.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert rehearse(team, recording_of(task).model_dump(mode="json")) == rehearse_task(task)


def test_a_running_task_is_rehearsed_to_its_last_step() -> None:
    task = graph_task()
    rehearsal = rehearse_task(replace(task, steps=task.steps[:4]))
    assert rehearsal.agents == ["writer", "critic", "writer", "critic (nothing is recorded)"]
    assert rehearsal.status == "running"


@pytest.mark.parametrize(
    ("graph", "agents", "status"),
    [
        ({"writer": ["END"], "critic": ["writer"]}, ["writer"], "completed"),
        ({"writer": ["critic"], "critic": ["USER"]}, ["writer", "critic"], "user_turn"),
        (
            {"writer": ["critic"], "critic": [{"to": "writer", "max_times": 1}]},
            ["writer", "critic", "writer", "critic"],
            "user_turn",
        ),
        (
            {"writer": ["critic"], "critic": ["writer"]},
            [*["writer", "critic"] * 3, "writer (nothing is recorded)"],
            "running",
        ),
    ],
)
def test_a_changed_graph_acts_differently(graph: dict[str, Any], agents: list[str], status: str) -> None:
    rehearsal = rehearse_task(graph_task(), reroute(**graph))
    assert (rehearsal.agents, rehearsal.status) == (agents, status)


def test_an_agent_that_the_team_lacks_does_not_act() -> None:
    assert rehearse_task(graph_task(), team_of(agents=[member("writer")])).agents == ["writer"]
    opened = replace(task := recorded_task(run_journey(TOOLS)), first=3)
    rehearsal = rehearse_task(replace(opened, steps=task.steps), team_of(agents=[member("closer")]))
    assert rehearsal.agents == ["closer"]


def test_a_tool_that_the_team_lacks_is_refused() -> None:
    agents = [member("lead", handoffs=["closer"]), member("closer")]
    rehearsal = rehearse_task(recorded_task(run_journey(TOOLS)), change_team(TOOLS.team, agents=agents))
    assert rehearsal.tools[:2] == ["add (error)", "add (error)"]
    assert rehearsal.agents == ["lead", "lead", "closer"]


def test_a_tool_with_a_new_approval_waits() -> None:
    tools = [{"name": "add", "function": "shop.sums:add", "effect": "pure", "approval": "required"}]
    rehearsal = rehearse_task(recorded_task(run_journey(TOOLS)), change_team(TOOLS.team, tools=tools))
    assert (rehearsal.agents, rehearsal.status) == (["lead"], "approval")


def test_a_message_is_supplied_only_while_the_team_waits() -> None:
    other = change_team(MANUAL.team, collaboration_model={"type": "sequential"})
    rehearsal = rehearse_task(recorded_task(run_journey(MANUAL)), other)
    assert (rehearsal.agents, rehearsal.status) == (["helper", "expert"], "completed")


@pytest.mark.parametrize(("code", "seconds"), [("attempts", 1), ("limit", 1), ("weather", 1), (None, 1)])
def test_a_step_that_depended_on_the_moment_keeps_its_position(code: str | None, seconds: float) -> None:
    task = graph_task()
    team = change_team(GRAPH.team, limits={"max_seconds": 30})
    cut = with_step(replace(task, team=team, steps=task.steps[:3]), code=code, seconds=seconds)
    rehearsal = rehearse_task(cut)
    assert [step.agent_name for step in rehearsal.steps][:4] == ["user", "writer", "critic", "orchestrator"]
    assert rehearsal.status == ("failed" if code else "running")


def test_a_time_limit_is_rehearsed_with_the_recorded_time() -> None:
    task = end_at_time_limit(graph_task(), 31)
    rehearsal = rehearse_task(task)
    assert (rehearsal.agents, rehearsal.status, rehearsal.reason) == (["writer", "critic"], "failed", task.reason)
    longer = change_team(task.team, limits={"max_seconds": 60})
    assert rehearse_task(task, longer).agents == ["writer", "critic", "writer (nothing is recorded)"]


@pytest.mark.parametrize(("at_limit", "status"), [("end", "failed"), ("wrap_up", "completed"), ("pause", "paused")])
def test_a_limit_that_a_worker_found_is_rehearsed_at_its_position(at_limit: str, status: str) -> None:
    task = recorded_task(run_to_limit(max_tokens=60, at_limit=at_limit))
    rehearsal = rehearse_task(task)
    assert [step.agent_name for step in rehearsal.steps] == [step.agent_name for step in task.steps]
    assert (rehearsal.status, rehearsal.reason) == (status, task.reason)
