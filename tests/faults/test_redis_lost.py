"""Redis emptied or restarted during a run: the task continues from its workspace."""

import pytest
import redis

from roboco.cli.drill.transcript import Transcript
from tests.support.journeys import GRAPH, answer, shape
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


def answer_slowly(request: Request) -> Reply:
    return Reply(text=answer(request).text, interval=0.05)


@pytest.mark.parametrize("chunk", [1, 12])
def test_a_task_survives_flushall_during_a_turn(stack: Stack, chunk: int) -> None:
    stack.model.script(answer_slowly)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if item.type == "text_part_delta" and transcript.types.count("text_part_delta") == chunk:
            with redis.Redis.from_url(stack.valkey.url) as client:
                client.flushall()
    assert task.result(60).status == "completed"
    assert shape(task.history()) == GRAPH.expected
    assert "event_stream_reset" in transcript.types
    assert transcript.finals == list(range(len(GRAPH.expected)))
    assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}


@pytest.mark.parametrize("keep", [True, False], ids=["with its data", "without its data"])
def test_a_task_survives_a_restart_of_redis(stack: Stack, keep: bool) -> None:
    """Workers that end because of the loss are restarted, as a process manager does."""
    stack.model.script(answer_slowly)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if item.type == "text_part_delta" and transcript.types.count("text_part_delta") == 5:
            stack.restart_redis(keep)
    assert task.result(60).status == "completed"
    assert shape(task.history()) == GRAPH.expected
    assert transcript.finals == list(range(len(GRAPH.expected)))
    assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}
