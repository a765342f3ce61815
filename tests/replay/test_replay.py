"""Recorded histories: every prefix decides as it did when it was recorded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.action import Action, AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.decide import Situation, decide
from roboco.domain.history import History
from roboco.domain.inbox import Answer, Message, Stop, Verdict
from roboco.domain.outcome import Outcome
from roboco.domain.part import ArtifactPart, ToolResultPart
from roboco.domain.router import route
from roboco.domain.state import fold
from roboco.domain.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep, read_step, verify_chain
from roboco.domain.summary import TaskSummary
from roboco.domain.team import Custom, Team
from tests.memory.controlled import CONTROLLED
from tests.memory.journeys import JOURNEYS

FOLDER = Path(__file__).parent / "histories" / "v1"
TAIL = 64
ROUTERS = {name: router for journey in JOURNEYS.values() for name, router in journey.routers.items()}
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def lines(name: str) -> list[bytes]:
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


def recorded(name: str) -> tuple[Team, list[TaskStep], TaskSummary]:
    """The team, the history and how it ended."""
    team = Team.model_validate_json((FOLDER / f"{name}.team.json").read_bytes())
    summary = TaskSummary.model_validate_json((FOLDER / f"{name}.task.json").read_bytes())
    return team, [read_step(line) for line in lines(name)], summary


def decided(team: Team, steps: list[TaskStep], situation: Situation) -> Action:
    model = team.collaboration_model
    router = ROUTERS[model.router] if isinstance(model, Custom) else route
    return decide(team, History(fold(steps), tuple(steps[-TAIL:])), situation, router)


def situation_before(step: TaskStep) -> Situation:
    """What must have come from outside, and from tools, for this step to be the next one."""
    item_id = step.metadata.get("item_id")
    if step.agent_name == USER:
        message = Message(
            item_id=str(item_id), created_at=step.created_at, text=step.text, agent=step.metadata.get("agent")
        )
        return Situation(inbox=(message,))
    if step.agent_name == ORCHESTRATOR and item_id is not None and step.error is not None:
        return Situation(inbox=(Stop(item_id=item_id, created_at=step.created_at, reason=step.error.message),))
    outcomes = outcomes_of(step)
    inbox = tuple(said_outside(step, outcomes))
    told = {item.call_id for item in inbox if isinstance(item, Answer) or not item.approved}
    return Situation(inbox, {call_id: outcome for call_id, outcome in outcomes.items() if call_id not in told})


def said_outside(step: TaskStep, outcomes: dict[str, Outcome]) -> Iterator[Answer | Verdict]:
    """What somebody outside said of the calls whose results the step holds."""
    verdicts = step.metadata.get("approvals") or {}
    usage = step.metadata.get("usage") or {}
    for call_id, item_id in (step.metadata.get("resolved") or {}).items():
        common: dict[str, Any] = {"item_id": item_id, "created_at": step.created_at, "at_seq": step.seq - 1}
        if call_id in verdicts:
            yield Verdict.model_validate(common | verdicts[call_id] | {"call_id": call_id})
        else:
            outcome = outcomes[call_id].model_copy(update={"usage": usage})
            usage = {}  # of several sub-tasks the step tells the sum
            yield Answer(**common, call_id=call_id, outcome=outcome)


def outcomes_of(step: TaskStep) -> dict[str, Outcome]:
    """The outcomes that the step of results was made of."""
    outcomes: dict[str, Outcome] = {}
    for part in step.parts:
        if isinstance(part, ToolResultPart):
            last = part.tool_result.tool_call_id
            outcomes[last] = Outcome(result=part.tool_result)
        elif isinstance(part, ArtifactPart):
            outcomes[last] = Outcome(result=outcomes[last].result, artifacts=(*outcomes[last].artifacts, part.artifact))
    return outcomes


def test_there_are_recorded_histories() -> None:
    assert sorted({**JOURNEYS, **CONTROLLED}) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_history_is_unchanged(name: str) -> None:
    _, steps, summary = recorded(name)
    assert verify_chain(lines(name)) == len(steps) == summary.steps
    assert [step.line().encode() for step in steps] == lines(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_decides_as_recorded(name: str) -> None:
    team, steps, summary = recorded(name)
    for seq in range(1, len(steps)):
        step = steps[seq]
        action = decided(team, steps[:seq], situation_before(step))
        if isinstance(action, StartTurn):
            assert (step.agent_name, step.metadata["routing"]) == (action.agent, action.route.record()), seq
        else:
            assert isinstance(action, AppendStep), seq
            assert (action.agent_name, action.parts) == (step.agent_name, step.parts), seq
            assert action.metadata == step.metadata, seq
    end = decided(team, steps, Situation())
    assert isinstance(end, End)
    assert (end.status, end.reason) == (summary.status, summary.reason)


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_asks_for_what_its_next_step_brought(name: str) -> None:
    """Without messages and results, a prefix waits for them, or has just these calls run."""
    team, steps, _ = recorded(name)
    for seq in range(1, len(steps)):
        step = steps[seq]
        action = decided(team, steps[:seq], Situation())
        if step.agent_name == USER:
            assert isinstance(action, Wait), seq
        elif step.agent_name == TOOL_EXECUTOR and isinstance(action, CallTools):
            assert {call.id for call in action.calls} <= {result.tool_call_id for result in step.results}, seq
        elif step.by_agent:
            assert isinstance(action, StartTurn), seq
