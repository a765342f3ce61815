"""Streams of real gateways beside real workers: cuts, proxies, exits, several tasks, the list, and pages."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import httpx2
import pytest

from roboco import Task
from roboco.gateway.streams.form import Form, LinesOfJson, ServerSentEvents
from tests.integration.streams.test_async_task import long_answer
from tests.support.gateway_process import (
    GatewayProcess,
    StreamClient,
    items_of_client,
    items_of_task,
)
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

STREAMS = 20
SLOW_STREAMS = 500


def slow_answer(request: Request) -> Reply:
    """Return the reply of a journey after 60 words, in about a second."""
    words = [f"{word} {number}, " for number in range(20) for word in ("wave", "foam", "wind")]
    return Reply(chunks=[*words, answer(request).text], interval=0.015)


@pytest.fixture(scope="module")
def gateways(folder_stack: Stack) -> Iterator[list[GatewayProcess]]:
    with GatewayProcess(folder_stack) as first, GatewayProcess(folder_stack, stream_seconds=1.5) as second:
        yield [first, second]


def run(main: Coroutine[Any, Any, None], seconds: float = 300) -> None:
    asyncio.run(asyncio.wait_for(main, seconds))


def path_of(task: Task) -> str:
    return f"/v1/tasks/{task.task_id}/events"


async def start(stack: Stack) -> Task:
    return await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)


async def assert_same(clients: list[StreamClient], task: Task) -> None:
    """Assert that each client has received the items of a direct follower, each once."""
    expected = await asyncio.to_thread(items_of_task, task)
    assert expected[-1][0] == "event_task_end"
    for client in clients:
        assert items_of_client(client) == expected


@pytest.mark.parametrize("form", [ServerSentEvents, LinesOfJson])
def test_clients_that_are_cut_after_every_frame_resume_at_another_gateway(
    folder_stack: Stack, gateways: list[GatewayProcess], form: type[Form]
) -> None:
    folder_stack.model.script(long_answer)
    urls = [gateway.url for gateway in gateways]

    async def main() -> None:
        task = await start(folder_stack)
        everywhere = StreamClient(urls, path_of(task), form)
        often = StreamClient(urls, path_of(task), form)
        await asyncio.gather(
            everywhere.follow(lambda frames: bool(frames) and frames[-1].kind not in ("ping", "stream_open")),
            often.follow(lambda frames: len(frames) > 20),
        )
        assert everywhere.connections > 10
        await assert_same([everywhere, often], task)
        again = StreamClient(urls, path_of(task), form)
        again.place = everywhere.place
        await again.follow()
        assert (again.frames, again.connections) == ([], 1), "after the end there is nothing: 204"

    run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("streams", [STREAMS, pytest.param(SLOW_STREAMS, marks=pytest.mark.nightly)])
def test_clients_of_a_gateway_that_ends_hold_the_exact_text(
    folder_stack: Stack, number: signal.Signals, streams: int
) -> None:
    may_end, replies = threading.Event(), count()

    def hold_later_turns(request: Request) -> Reply:
        return replace(slow_answer(request), held_until=may_end if next(replies) else None)

    folder_stack.model.script(hold_later_turns)

    async def main() -> None:
        with GatewayProcess(folder_stack) as gateway:
            task = await start(folder_stack)
            forms: list[type[Form]] = [ServerSentEvents, LinesOfJson]
            clients = [StreamClient([gateway.url], path_of(task), forms[index % 2]) for index in range(streams)]
            following = [asyncio.create_task(client.follow()) for client in clients]
            async with asyncio.timeout(600):
                while not all(client.shown for client in clients):
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(gateway.end, number)
            gateway.start()
            may_end.set()
            await asyncio.gather(*following)
            assert all(client.connections > 1 for client in clients)
            if number is signal.SIGTERM:
                reasons = [one.data["reason"] for one in clients[0].frames if one.kind == "stream_end"]
                assert reasons.pop() == "task_end"
                assert set(reasons) == {"closing"}, "a client that resumes before the exit is sent away again"
            await assert_same(clients, task)

    try:
        run(main(), 900)
    finally:
        may_end.set()


def test_a_browser_gets_an_outage_as_a_stream_that_asks_it_to_come_back(folder_stack: Stack) -> None:
    folder_stack.model.script(answer)
    with GatewayProcess(folder_stack, call_timeout=2) as gateway:
        task = folder_stack.orchestrator.run(MANUAL.team, MANUAL.prompt)
        assert task.result(60).status == "user_turn"
        os.kill(folder_stack.valkey.pid, signal.SIGKILL)
        try:
            url = f"{gateway.url}{path_of(task)}"
            for headers, status in (({"Accept": "text/event-stream"}, 200), ({}, 503)):
                reply = httpx2.get(url, headers=headers, timeout=30)
                assert reply.status_code == status
                assert gateway.lives()
                if status == 503:
                    assert reply.headers["retry-after"]
                else:
                    [event] = reply.text.strip().split("\n\n")
                    assert "event: stream_end" in event
                    assert json.loads(event.partition("data: ")[2])["code"] == "unavailable"
        finally:
            folder_stack.restart_redis(keep=True)
