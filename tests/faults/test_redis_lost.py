"""Redis emptied in the middle of a run: the task goes on from its workspace."""

import pytest
import redis

from tests.journeys import GRAPH, answer, shape
from tests.servers.model_server import Reply, Request
from tests.stack import Stack
from tests.transcript import Transcript

pytestmark = pytest.mark.workers


def slow(request: Request) -> Reply:
    return Reply(text=answer(request).text, interval=0.05)


@pytest.mark.parametrize("chunk", [1, 12])
def test_flushall_in_the_middle_of_a_turn(stack: Stack, chunk: int) -> None:
    stack.model.script(slow)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if item.type == "text_part_delta" and transcript.types.count("text_part_delta") == chunk:
            with redis.Redis.from_url(stack.valkey.url) as client:
                client.flushall()
    assert task.result(30).status == "completed"
    assert shape(task.history()) == GRAPH.expected
    assert "event_stream_reset" in transcript.types
    assert transcript.finals == list(range(len(GRAPH.expected)))
    assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}
