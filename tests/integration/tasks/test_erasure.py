"""Erasure and export with real workers, on a folder and on S3."""

from contextlib import suppress

import pytest

from roboco.domain.task_summary import TaskSummary
from roboco.errors import Erased, StateConflict
from roboco.redis.keys import Keys
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.stack import Stack
from tests.support.unpacked_tar import unpacked

pytestmark = pytest.mark.workers


@pytest.fixture(autouse=True)
def _script_answers(stack: Stack) -> None:
    stack.model.script(answer)


def test_an_ended_task_is_exported_and_erased(stack: Stack) -> None:
    orchestrator = stack.orchestrator
    task = orchestrator.run(GRAPH.team, GRAPH.prompt)
    task.result(60)
    data = b"".join(orchestrator.operator.export_task(task.task_id))
    assert TaskSummary.model_validate_json(unpacked(data)["task.json"]) == task.summary()
    receipt = orchestrator.operator.erase(task.task_id, timeout=60, reason="a test")
    assert (receipt.status, receipt.problem) == ("erased", "")
    assert receipt.files is not None
    assert receipt.files > 3
    assert receipt == orchestrator.operator.erasure(task.task_id)
    assert list(orchestrator._engine.workspace.files.tree(f"{task.task_id}/")) == []
    client, keys = orchestrator._client, Keys(stack.settings.prefix)
    assert list(client.scan_iter(f"{keys.prefix}:{{{task.task_id}}}:*")) in ([], [keys.state(task.task_id)])
    for act in (lambda: orchestrator.task(task.task_id), lambda: task.send("more")):
        with pytest.raises(Erased):
            act()
    with pytest.raises(Erased):
        orchestrator.run(GRAPH.team, GRAPH.prompt, task_id=task.task_id)


def test_a_waiting_task_is_stopped_and_erased(stack: Stack) -> None:
    orchestrator = stack.orchestrator
    task = orchestrator.run(MANUAL.team, MANUAL.prompt)
    task.result(60)
    with pytest.raises(StateConflict, match="has not ended"):
        orchestrator.operator.erase(task.task_id)
    receipt = orchestrator.operator.erase(task.task_id, stop=True, timeout=60)
    assert receipt.status == "erased"
    assert list(orchestrator._engine.workspace.files.tree(f"{task.task_id}/")) == []


def test_a_follower_that_is_connected_during_an_erasure_ends(stack: Stack) -> None:
    """It gets the end of the stopped task, or learns of the erasure if that is faster."""
    task = stack.orchestrator.run(MANUAL.team, MANUAL.prompt)
    task.result(60)
    followed = iter(task)
    received = [next(followed)]
    stack.orchestrator.operator.erase(task.task_id, stop=True, timeout=60)
    with suppress(Erased):
        received.extend(followed)
        assert received[-1].type == "event_task_end"


def test_a_follower_that_missed_the_end_of_an_erased_task_learns_of_the_erasure(stack: Stack) -> None:
    """Nothing else ends it: the logs of the task are gone, and so is its summary."""
    task = stack.orchestrator.run(MANUAL.team, MANUAL.prompt)
    task.result(60)
    stack.orchestrator.operator.erase(task.task_id, stop=True, timeout=60)
    with pytest.raises(Erased, match="was erased"):
        task._stream.has_ended()
    with pytest.raises(Erased, match="was erased"):
        next(iter(task))
