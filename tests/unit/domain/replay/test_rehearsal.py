"""rehearse: a team is given what was recorded, and does the same, or shows what it would do instead."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.replay.recording import Recording, recording_of
from roboco.domain.replay.rehearsal import Rehearsal, rehearse
from roboco.domain.replay.replay import RecordedTask
from roboco.domain.team.team import Team
from tests.support.memory_ports.journeys import GRAPH, MANUAL, TOOLS, member
from tests.support.memory_ports.world import team_of
from tests.unit.domain.recorded_tasks import PASTS, graph_past, limited, past_of, travelled
from tests.unit.domain.replay.test_replay import changed, late, rerouted, with_step


def rehearsed(past: RecordedTask, team: Team | None = None) -> Rehearsal:
    """The rehearsal of the past, of which nothing but JSON is kept between."""
    recording = Recording.model_validate_json(recording_of(past).model_dump_json())
    return rehearse(team or past.team, recording, past.router)


@pytest.mark.parametrize("name", PASTS)
def test_the_same_team_does_the_same(name: str) -> None:
    past = PASTS[name]()
    rehearsal = rehearsed(past)
    assert [(step.agent_name, step.parts) for step in rehearsal.steps] == [
        (step.agent_name, step.parts) for step in past.steps
    ]
    assert [step.metadata.get("routing") for step in rehearsal.steps] == [
        step.metadata.get("routing") for step in past.steps
    ]
    if past.status.ended or past.status.waiting:
        assert (rehearsal.status, rehearsal.reason) == (past.status, past.reason)


def test_what_it_tells() -> None:
    rehearsal = rehearsed(past_of(travelled(TOOLS)))
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
    past = graph_past()
    team = past.team.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert rehearse(team, recording_of(past).model_dump(mode="json")) == rehearsed(past)


def test_a_task_that_goes_on_is_rehearsed_as_far_as_it_came() -> None:
    past = graph_past()
    rehearsal = rehearsed(replace(past, steps=past.steps[:4]))
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
def test_a_changed_graph_acts_otherwise(graph: dict[str, Any], agents: list[str], status: str) -> None:
    rehearsal = rehearsed(graph_past(), rerouted(**graph))
    assert (rehearsal.agents, rehearsal.status) == (agents, status)


def test_an_agent_that_is_gone() -> None:
    assert rehearsed(graph_past(), team_of(agents=[member("writer")])).agents == ["writer"]
    opened = replace(past := past_of(travelled(TOOLS)), first=3)
    gone = rehearsed(replace(opened, steps=past.steps), team_of(agents=[member("closer")]))
    assert gone.agents == ["closer"]


def test_a_tool_that_is_gone_is_refused() -> None:
    agents = [member("lead", handoffs=["closer"]), member("closer")]
    rehearsal = rehearsed(past_of(travelled(TOOLS)), changed(TOOLS.team, agents=agents))
    assert rehearsal.tools[:2] == ["add (error)", "add (error)"]
    assert rehearsal.agents == ["lead", "lead", "closer"]


def test_a_tool_that_needs_approval_now_is_waited_for() -> None:
    tools = [{"name": "add", "function": "shop.sums:add", "effect": "pure", "approval": "required"}]
    rehearsal = rehearsed(past_of(travelled(TOOLS)), changed(TOOLS.team, tools=tools))
    assert (rehearsal.agents, rehearsal.status) == (["lead"], "approval")


def test_a_message_that_was_waited_for_comes_only_then() -> None:
    other = changed(MANUAL.team, collaboration_model={"type": "sequential"})
    rehearsal = rehearsed(past_of(travelled(MANUAL)), other)
    assert (rehearsal.agents, rehearsal.status) == (["helper", "expert"], "completed")


@pytest.mark.parametrize(("code", "seconds"), [("attempts", 1), ("limit", 1), ("weather", 1), (None, 1)])
def test_what_depended_on_the_moment_comes_at_its_place(code: str | None, seconds: float) -> None:
    past = graph_past()
    team = changed(GRAPH.team, limits={"max_seconds": 30})
    cut = with_step(replace(past, team=team, steps=past.steps[:3]), code=code, seconds=seconds)
    rehearsal = rehearsed(cut)
    assert [step.agent_name for step in rehearsal.steps][:4] == ["user", "writer", "critic", "orchestrator"]
    assert rehearsal.status == ("failed" if code else "running")


def test_a_limit_of_seconds_is_rehearsed_with_the_time_that_it_took() -> None:
    past = late(graph_past(), 31)
    rehearsal = rehearsed(past)
    assert (rehearsal.agents, rehearsal.status, rehearsal.reason) == (["writer", "critic"], "failed", past.reason)
    longer = changed(past.team, limits={"max_seconds": 60})
    assert rehearsed(past, longer).agents == ["writer", "critic", "writer (nothing is recorded)"]


@pytest.mark.parametrize(("at_limit", "status"), [("end", "failed"), ("wrap_up", "completed"), ("pause", "paused")])
def test_a_limit_that_a_worker_found_is_rehearsed_at_its_place(at_limit: str, status: str) -> None:
    past = past_of(limited(max_tokens=60, at_limit=at_limit))
    rehearsal = rehearsed(past)
    assert [step.agent_name for step in rehearsal.steps] == [step.agent_name for step in past.steps]
    assert (rehearsal.status, rehearsal.reason) == (status, past.reason)
