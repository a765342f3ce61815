"""The example of server-sent events under uvicorn: clients that disconnect resume after their last event."""

import http.client
import json
import os
import random
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from roboco import Task
from roboco.local.process import Server, free_port, wait_ready
from tests.integration.streams.test_async_task import long_answer
from tests.support import forked
from tests.support.journeys import GRAPH
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import ROOT, Stack, until

pytestmark = pytest.mark.workers

MAX_DISCONNECTS = 25
TURNS = len(GRAPH.expected) - 1


@dataclass(frozen=True)
class SseServer:
    """The example, served by uvicorn."""

    server: Server
    port: int

    @contextmanager
    def get(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """Yield the response with only its head read. The connection closes when the block ends."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", path, headers=headers)
            with connection.getresponse() as answer:
                yield answer

    def events(self, task_id: str, after: str | None) -> Generator[dict[str, str], None, None]:
        """Yield the events as a browser reads them, without an incomplete last one."""
        headers = {} if after is None else {"Last-Event-ID": after}
        with self.get(f"/tasks/{task_id}/events", **headers) as answer:
            assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream")
            event: dict[str, str] = {}
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif event:
                    yield event
                    event = {}
            assert not event


@pytest.fixture
def web(folder_stack: Stack) -> Iterator[SseServer]:
    port = free_port()
    arguments = ["roboco.examples.sse:app", "--port", str(port)]
    log = folder_stack.folder / "uvicorn.log"
    server = forked.start("web", arguments, program="uvicorn", env=folder_stack.environment, log=log, cwd=ROOT)
    try:
        wait_ready(server, lambda: _responds(port), 180)
        yield SseServer(server, port)
    finally:
        server.stop()
    assert "Traceback" not in log.read_text()


def _responds(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=60):
            return True
    except URLError:
        return False


def sent_items(task: Task) -> list[dict[str, Any]]:
    """Return the items of a follower that stays connected, as the server sends them."""
    return [{"id": i.cursor, "event": i.type, "data": i.data.model_dump(mode="json")} for i in task.stream()]


def parse_event(event: dict[str, str]) -> dict[str, Any]:
    return event | {"data": json.loads(event["data"])}


def with_whole_texts(events: list[dict[str, Any]]) -> list[Any]:
    """Return the data of the events, with the text of each step in place of its pieces: a late client gets it whole."""
    found: list[Any] = []
    texts: dict[str, str] = {}
    for data in (event["data"] for event in events):
        if data["type"] == "text_part_delta":
            texts[data["step_id"]] = ("" if data["replace"] else texts.get(data["step_id"], "")) + data["text"]
            continue
        found.append(data)
        if data["type"] == "step_final":
            found.append(texts.pop(data["step"]["step_id"], ""))
    return found


def follow_with_disconnects(web: SseServer, task_id: str, seed: int) -> list[dict[str, Any]]:
    """Return the events of a client that disconnects after a few events and resumes after its last complete one."""
    dice = random.Random(seed)
    received: list[dict[str, Any]] = []
    for number in range(MAX_DISCONNECTS + 1):
        with closing(web.events(task_id, received[-1]["id"] if received else None)) as events:
            for event in events:
                received.append(parse_event(event))
                if number < MAX_DISCONNECTS and dice.random() < 0.15:
                    break
    return received


def test_clients_that_disconnect_lose_and_repeat_nothing(folder_stack: Stack, web: SseServer) -> None:
    may_end, replies = threading.Event(), count(1)

    def hold_last_turn(request: Request) -> Reply:
        return replace(long_answer(request), held_until=may_end if next(replies) == TURNS else None)

    folder_stack.model.script(hold_last_turn)
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    channel = f"roboco:{{{task.task_id}}}:content"
    client: Any = folder_stack.orchestrator._client
    with ThreadPoolExecutor(6) as threads:
        clients = [threads.submit(follow_with_disconnects, web, task.task_id, seed) for seed in range(6)]
        try:
            until(lambda: client.pubsub_numsub(channel)[0][1], 60, "the service is subscribed")
        finally:
            may_end.set()
        expected = with_whole_texts(sent_items(task))
        for done in clients:
            assert with_whole_texts(done.result(60)) == expected
    assert expected[-1]["type"] == "event_task_end"
    late = follow_with_disconnects(web, task.task_id, 7)
    assert with_whole_texts(late) == expected, "a client after the end receives the same events"
    until(lambda: client.pubsub_numsub(channel)[0][1] == 0, 60, "the service has unsubscribed")


def test_the_stream_is_empty_while_redis_is_down_so_that_a_browser_reconnects(
    folder_stack: Stack, web: SseServer
) -> None:
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    task.pause()
    os.kill(folder_stack.valkey.pid, signal.SIGKILL)
    try:
        with web.get(f"/tasks/{task.task_id}/events") as answer:
            assert (answer.status, answer.getheader("Content-Type"), answer.read()) == (200, "text/event-stream", b"")
    finally:
        folder_stack.restart_redis(keep=True)
