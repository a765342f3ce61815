"""Real workers, killed with SIGKILL at named moments: the same history, no step twice, none missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import Task
from roboco.domain.step import verify_chain
from tests.journeys import GRAPH, PARALLEL, Journey, answer, shape
from tests.servers.model_server import Reply, Request
from tests.stack import Stack, until
from tests.transcript import Transcript

pytestmark = pytest.mark.workers


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path) as running:
        running.model.script(answer)
        yield running


def check(stack: Stack, journey: Journey, task: Task) -> None:
    assert journey.run_to_end(task) == journey.ends
    assert shape(task.history()) == journey.expected
    verify_chain(stack.orchestrator.engine.histories.lines(task.task_id))
    assert stack.model.violations == []


def slow(request: Request) -> Reply:
    reply = answer(request)
    return Reply(text=reply.text, tool_calls=reply.tool_calls, interval=0.1)


def test_agents_worker_killed_in_the_middle_of_a_turn(stack: Stack) -> None:
    stack.model.script(slow)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if item.type == "text_part_delta" and transcript.types.count("text_part_delta") == 3:
            stack.restart("agents")
    check(stack, GRAPH, task)
    assert transcript.types.count("event_turn_restart") == 1
    assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}


def test_tools_worker_killed_in_the_middle_of_a_call(stack: Stack) -> None:
    task = stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    calls = stack.folder / "calls.txt"
    until(lambda: calls.exists(), 20, "a tool call runs")
    stack.restart("tools")
    check(stack, PARALLEL, task)
    attempts = [line.split() for line in calls.read_text().splitlines()]
    assert {attempt for _, attempt, _ in attempts} == {"1", "2"}
    assert len({key for _, _, key in attempts}) == 2, "the idempotency key is the same on every attempt"


def test_tools_worker_killed_in_an_irreversible_call(stack: Stack) -> None:
    """The call is not run again, and the agent is told that nobody knows how it ended."""
    spec = PARALLEL.team.tools[0].model_copy(update={"effect": "irreversible"})
    team = PARALLEL.team.model_copy(update={"tools": (spec,)})
    task = stack.orchestrator.run(team, PARALLEL.prompt)
    calls = stack.folder / "calls.txt"
    until(lambda: calls.exists() and len(calls.read_text().splitlines()) == 2, 20, "both calls run")
    stack.restart("tools")
    assert task.result(60).status == "completed"
    first, second, third = task.history()[2].results
    assert first.is_error
    assert "outcome unknown" in (first.error or "")
    assert second.is_error
    assert not third.is_error
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("pool", "message", "journey"),
    [
        ("agents", "roboco.advance", GRAPH),
        ("coordinator", "roboco.turn", GRAPH),
        ("coordinator", "roboco.tool", PARALLEL),
        ("tools", "roboco.advance", PARALLEL),
    ],
)
def test_worker_killed_between_commit_and_hand_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str, message: str, journey: Journey
) -> None:
    with Stack(tmp_path, pools=()) as stack:
        stack.model.script(answer)
        for name in ("coordinator", "agents", "tools"):
            stack.start(name, modules="tests.killing" if name == pool else "workers", KILL_BEFORE=message)
        task = stack.orchestrator.run(journey.team, journey.prompt)
        until(lambda: not stack.workers[pool].alive(), 30, f"{pool} killed itself")
        stack.start(pool)
        check(stack, journey, task)
        turns = sum(1 for step in task.history() if step.by_agent)
        assert len(stack.model.requests) == turns, "a finished turn was made again"
