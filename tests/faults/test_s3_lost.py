"""The S3 server, or S3 and Redis, killed during a run and restarted a second later: the task continues and ends."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from roboco.domain.history.step import verify_chain
from roboco.errors import UsageError
from roboco.lab.transcript import Transcript
from roboco.local.seaweed import S3Server, start_seaweed
from tests.support.journeys import GRAPH, answer, shape
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, s3_environment, until

pytestmark = [pytest.mark.workers, pytest.mark.s3]


def answer_slowly(request: Request) -> Reply:
    return Reply(text=answer(request).text, interval=0.1)


def start_again(folder: Path, port: int) -> S3Server:
    """Start the server on its port again. A test of another process that looks for free ports may hold it a moment."""
    started: list[S3Server] = []

    def starts() -> bool:
        with suppress(UsageError):
            started.append(start_seaweed(folder, port))
        return bool(started)

    until(starts, 20, f"the ports from {port} are free")
    return started[0]


@pytest.mark.parametrize(
    "redis",
    [
        "redis stays",
        pytest.param("redis goes too, with its data", marks=pytest.mark.nightly),
        "redis goes too, without its data",
    ],
)
def test_a_task_survives_a_restart_of_s3(tmp_path: Path, redis: str) -> None:
    s3 = start_seaweed(tmp_path / "seaweed")
    try:
        with s3_environment(s3), Stack(tmp_path, s3=s3) as stack:
            stack.model.script(answer_slowly)
            task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
            transcript = Transcript()
            for item in task.stream():
                transcript.take(item)
                if item.type == "text_part_delta" and transcript.types.count("text_part_delta") == 5:
                    os.kill(s3.pid, signal.SIGKILL)
                    s3.process.wait()
                    if "goes" in redis:
                        stack.restart_redis(keep="with its" in redis)
                    time.sleep(1.0)  # the length of the outage
                    s3 = start_again(tmp_path / "seaweed", s3.port)
            assert transcript.types.count("text_part_delta") >= 5, "the outage has happened"
            assert task.result(60).status == "completed"
            assert shape(task.history()) == GRAPH.expected
            assert transcript.finals == list(range(len(GRAPH.expected)))
            assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}
            verify_chain(stack.orchestrator._engine.workspace.histories.lines(task.task_id))
    finally:
        s3.stop()
