"""An S3 store that is silent for 20 s behind a gateway: streams and health stay live, requests get 503 in time."""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roboco.local.seaweed import S3Server, start_seaweed
from tests.support.gateway_process import GatewayProcess, StreamClient, items_of_client, items_of_task
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, Stack, s3_environment, until

pytestmark = [pytest.mark.workers, pytest.mark.s3, pytest.mark.slow]

SILENCE = 20.0
"""Seconds for which the store is silent."""
CALL_TIMEOUT = 2.0
"""Seconds after which the gateway of the test gives up a call."""
MAX_ANSWER_SECONDS = 60.0
"""Seconds of a request, with those that a busy machine adds. The store stays silent until all are refused."""
FLOOD = 150
"""Requests at once, more than the lines of the gateway hold."""
TEAM = {"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]}
SLOW_PAUSE = 2.5
"""Seconds between two words of a model for which a follower of its task looks whether the task has ended."""
SLOW_WORDS = [f"slow {number}, " for number in range(20)]
WORDS = [f"word {number}, " for number in range(400)]


@contextmanager
def silent(server: S3Server) -> Iterator[None]:
    """Let the server accept connections and answer nothing within the block."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


class Requests:
    """Clients of a gateway. `seconds` holds the time of each answer."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.seconds: list[float] = []

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Return the response."""
        began = time.monotonic()
        response = await self._client.request(method, path, **options)
        self.seconds.append(time.monotonic() - began)
        return response

    async def check_refusals(self, pending: list[Coroutine[Any, Any, httpx2.Response]]) -> None:
        """Assert that each response is 503 with Retry-After."""
        for response in await asyncio.gather(*pending):
            assert response.status_code == 503, response.text
            assert int(response.headers["retry-after"]) > 0
            assert response.json()["code"] == "unavailable"


def whole_text(client: StreamClient) -> str:
    """Return the text of the pieces that a client has received."""
    return "".join(frame.data["text"] for frame in client.shown if frame.kind == "text_part_delta")


async def until_async(condition: Any, seconds: float, what: str) -> None:
    """Wait until the condition holds."""
    await asyncio.to_thread(until, condition, seconds, what)


def test_a_silent_store_stops_requests_but_neither_streams_nor_health(tmp_path: Path) -> None:
    s3 = start_seaweed(tmp_path / "seaweed")

    def speak(request: Request) -> Reply:
        """Answer "live" and "slow" in pieces for a time that is longer than the silence, and others at once."""
        if request.last_user == "slow":
            return Reply(chunks=SLOW_WORDS, interval=SLOW_PAUSE)
        return Reply(chunks=WORDS, interval=0.1) if request.last_user == "live" else Reply(text="done")

    async def main(stack: Stack, gateway: GatewayProcess) -> None:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=60, limits=limits) as client:
            requests = Requests(client)
            new_task = {"json": {"team": TEAM, "prompt": "later"}, "headers": {"Idempotency-Key": "silent"}}
            slow = StreamClient(
                [gateway.url],
                (await requests.send("POST", "/v1/tasks", json={"team": TEAM, "prompt": "slow"})).headers["location"]
                + "/events",
            )
            following = [asyncio.create_task(slow.follow())]
            await until_async(lambda: "slow 0" in str(slow.shown), 60, "the slow stream is live")
            body = {"team": TEAM, "prompt": "live"}
            task_id = (await requests.send("POST", "/v1/tasks", json=body)).raise_for_status().json()["task_id"]
            path = f"/v1/tasks/{task_id}"
            streams = [StreamClient([gateway.url], f"{path}/events") for _ in range(3)]
            following += [asyncio.create_task(stream.follow()) for stream in streams]
            await until_async(lambda: all(len(one.shown) > 10 for one in streams), 60, "the streams are live")
            requests.seconds.clear()
            slow_before = len(slow.shown)
            with silent(s3):
                ends_at = time.monotonic() + SILENCE
                late = StreamClient([gateway.url], f"{path}/events")  # all that it needs is in Redis
                following.append(asyncio.create_task(late.follow()))
                await until_async(lambda: len(late.shown) > 10, 60, "a stream that is opened now is live")
                streams.append(late)
                while time.monotonic() < ends_at:
                    before = [len(stream.shown) for stream in streams]
                    reads = [requests.send("GET", f"{path}/history") for _ in range(3)]
                    await requests.check_refusals([*reads, requests.send("POST", "/v1/tasks", **new_task)])
                    assert (await requests.send("GET", "/healthz")).status_code == 200
                    assert (await requests.send("GET", "/readyz")).status_code == 200
                    after = [len(stream.shown) for stream in streams]
                    assert all(now > then for now, then in zip(after, before, strict=True)), (before, after)
                assert len(slow.shown) - slow_before >= SILENCE / SLOW_PAUSE - 3
                flood = [requests.send("GET", f"{path}/history") for _ in range(FLOOD)]
                health = [requests.send("GET", "/healthz") for _ in range(5)]
                refused, healthy = asyncio.create_task(requests.check_refusals(flood)), await asyncio.gather(*health)
                assert [one.status_code for one in healthy] == [200] * 5
                await refused
            assert max(requests.seconds) < MAX_ANSWER_SECONDS
            assert [stream.connections for stream in streams] == [1] * 4
            created = await retried(lambda: requests.send("POST", "/v1/tasks", **new_task))
            again = await requests.send("POST", "/v1/tasks", **new_task)
            assert again.json() == created.json() | {"created": False}
            assert (await retried(lambda: requests.send("GET", f"{path}/history"))).status_code == 200
            await asyncio.gather(*following)
            task = stack.orchestrator.task(task_id)
            expected = await asyncio.to_thread(items_of_task, task)
            assert whole_text(slow) == "".join(SLOW_WORDS)
            for stream in streams:
                assert items_of_client(stream) == expected
            assert [step.text for step in task.history()] == ["live", "".join(WORDS)]
            later = stack.orchestrator.task(created.json()["task_id"])
            assert (await asyncio.to_thread(later.result, 60)).status == "completed"
            assert [step.text for step in later.history()] == ["later", "done"]

    try:
        with s3_environment(s3), Stack(tmp_path, s3=s3, lease_seconds=LONG_LEASE) as stack:
            stack.model.script(speak)
            with GatewayProcess(stack, call_timeout=CALL_TIMEOUT) as gateway:
                asyncio.run(asyncio.wait_for(main(stack, gateway), 600))
    finally:
        s3.stop()


async def retried(send: Any) -> httpx2.Response:
    """Return the first response that is not 503, within half a minute."""
    async with asyncio.timeout(60):
        while (response := await send()).status_code == 503:
            await asyncio.sleep(0.5)
    assert isinstance(response, httpx2.Response)
    return response
