"""Recorded histories: `decide` returns the recorded decision for every prefix."""

from functools import cache
from pathlib import Path

import pytest

from roboco.domain.decision.action import Action, AppendStep, CallTools, Situation, StartTurn, Wait
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import Router, route
from roboco.domain.history.step import FUNCTION, TOOL_EXECUTOR, USER, TaskStep, parse_step, verify_chain
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.recorded.recording import Recording
from roboco.domain.recorded.rehearsal import rehearse
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.lab.replay.evidence import history_prefixes
from roboco.lab.replay.recording import recording_of
from roboco.lab.replay.replay import replay
from tests.support.memory_ports.journeys import JOURNEYS

FOLDER = Path(__file__).parent / "histories" / "v1"
ROUTERS = {name: router for journey in JOURNEYS.values() for name, router in journey.routers.items()}
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read_lines(name: str) -> list[bytes]:
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


@cache
def load_recording(name: str) -> tuple[Team, list[TaskStep], TaskSummary]:
    """Return the team, the history and the summary."""
    team = Team.model_validate_json((FOLDER / f"{name}.team.json").read_bytes())
    summary = TaskSummary.model_validate_json((FOLDER / f"{name}.task.json").read_bytes())
    return team, [parse_step(line) for line in read_lines(name)], summary


def router_of(team: Team) -> Router:
    model = team.collaboration_model
    return ROUTERS[model.router] if isinstance(model, Custom) else route


def load_recorded_task(name: str) -> RecordedTask:
    """Return the recorded task in the form that `roboco replay` uses."""
    team, steps, summary = load_recording(name)
    return RecordedTask(
        team, tuple(steps), summary.status, summary.reason, started_at=steps[0].created_at, router=router_of(team)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_history_is_unchanged(name: str) -> None:
    _, steps, summary = load_recording(name)
    assert verify_chain(read_lines(name)) == len(steps) == summary.steps
    assert [step.line().encode() for step in steps] == read_lines(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_decides_as_recorded(name: str) -> None:
    past = load_recorded_task(name)
    positions = replay(past)
    assert [(one.seq, one.chosen, one.note) for one in positions if one.comparison != "same"] == []
    assert [one.seq for one in positions] == [*range(past.first_decided, len(past.steps)), None]


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_decides_on_the_kind_of_its_next_step(name: str) -> None:
    """Without messages and results, `decide` waits for them, or requests exactly the recorded calls."""
    team, steps, _ = load_recording(name)
    for history, step in zip(history_prefixes(steps), steps[1:], strict=False):
        action: Action = decide(team, history, Situation(), router_of(team))
        if step.agent_name == USER:
            assert isinstance(action, Wait), step.seq
        elif step.agent_name == TOOL_EXECUTOR and isinstance(action, CallTools):
            assert {call.id for call in action.calls} <= {result.tool_call_id for result in step.results}, step.seq
        elif step.by_agent:
            assert isinstance(action, AppendStep if FUNCTION in step.metadata else StartTurn), step.seq


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_reproduces_the_recording(name: str) -> None:
    past = load_recorded_task(name)
    recording = Recording.model_validate_json(recording_of(past).model_dump_json())
    rehearsal = rehearse(past.team, recording, past.router)
    assert [(step.agent_name, step.parts) for step in rehearsal.steps] == [
        (step.agent_name, step.parts) for step in past.steps
    ]
    assert (rehearsal.status, rehearsal.reason) == (past.status, past.reason)
