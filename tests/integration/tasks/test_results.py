"""Result, status and texts of a task, as its caller gets them from real workers."""

import asyncio

import pytest

from roboco import UsageError
from tests.support.journeys import GRAPH, MANUAL, PARALLEL, answer
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.fixture(autouse=True)
def _script_answers(shared_stack: Stack) -> None:
    shared_stack.model.script(answer)


def test_result_of_a_task_with_tools_holds_usage_and_files(shared_stack: Stack) -> None:
    task = shared_stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    result = task.result(60).raise_for_status()
    assert result.text == "The sums are 3 and 7."
    assert [file.name for file in result.files] == ["plan.md"]
    assert result.files == tuple(task.artifacts())
    assert (result.usage.steps, result.usage.calls, result.cost) == (8, 4, 0.0)
    assert result.usage.tokens > 0
    assert result.usage.seconds > 0
    assert asyncio.run(task.aresult(60)) == result


def test_status_is_equal_in_task_result_and_summary(shared_stack: Stack) -> None:
    orchestrator = shared_stack.orchestrator
    task = orchestrator.run(MANUAL.team, MANUAL.prompt)
    assert not task.status.ended
    assert task.result(60).raise_for_status().status == task.status == "user_turn"
    task.stop()
    until(lambda: task.status == "cancelled", 60, "the task is stopped")
    assert task.result(60).status == task.summary().status == "cancelled"
    orchestrator._client.delete(*orchestrator._follower._keys.task_keys(task.task_id))
    assert task.status == "cancelled", "the status is read from the workspace"
    with pytest.raises(UsageError, match="no task 'nothing'"):
        _ = orchestrator._task("nothing").status


def test_texts_equal_the_history_although_an_attempt_broke_off(shared_stack: Stack) -> None:
    shared_stack.model.fail_next(1, Reply(text="half an answer that is void", break_after=3))
    task = shared_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)

    async def texts() -> list[str]:
        return [text async for text in task.atext()]

    live = list(task.text())
    assert "event_turn_restart" in [item.type for item in task.stream()]
    assert live == [step.text for step in task.history() if step.by_agent]
    assert list(task.text()) == asyncio.run(texts()) == live
