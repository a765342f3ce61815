"""The S3 server, or S3 and Redis, killed during a run and restarted a second later: the task continues and ends."""

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from roboco.errors import UsageError
from roboco.local.seaweed import S3Server, start_seaweed
from tests.support.journeys import GRAPH, answer_slowly, follow
from tests.support.stack import Stack, s3_environment, until

pytestmark = [pytest.mark.workers, pytest.mark.s3]


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
            stack.model.script(partial(answer_slowly, interval=0.1))
            task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)

            def lose() -> None:
                nonlocal s3
                os.kill(s3.pid, signal.SIGKILL)
                s3.process.wait()
                if "goes" in redis:
                    stack.restart_redis(keep="with its" in redis)
                time.sleep(1.0)  # the length of the outage
                s3 = start_again(tmp_path / "seaweed", s3.port)

            transcript = follow(task, lose)
            assert task.result(60).status == "completed"
            GRAPH.check(task, transcript)
    finally:
        s3.stop()
