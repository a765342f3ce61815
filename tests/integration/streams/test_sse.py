"""The example of server-sent events in a real server: clients that are cut off go on where they were."""

import http.client
import json
import os
import random
import signal
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from roboco import Task
from roboco.adapters.local.process import Server, free_port, start_server, wait_ready
from tests.integration.streams.test_resume import lengthy
from tests.support.journeys import GRAPH
from tests.support.stack import ROOT, Stack, until

pytestmark = pytest.mark.workers

CUTS = 25


@dataclass(frozen=True)
class Web:
    """The example, served by uvicorn."""

    server: Server
    port: int

    @contextmanager
    def get(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """The answer, of which only the head was read; the connection is cut when the block ends."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("GET", path, headers=headers)
            with connection.getresponse() as answer:
                yield answer

    def events(self, task_id: str, after: str | None) -> Generator[dict[str, str], None, None]:
        """The events as a browser reads them: one that is not whole does not count."""
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
def web(folder_stack: Stack) -> Iterator[Web]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "roboco.examples.sse:app", "--port", str(port)]
    log = folder_stack.folder / "uvicorn.log"
    server = start_server("uvicorn", command, env=folder_stack.environment, log=log, cwd=ROOT)
    try:
        wait_ready(server, lambda: _answers(port), 60)
        yield Web(server, port)
    finally:
        server.stop()
    assert "Traceback" not in log.read_text()


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=5):
            return True
    except URLError:
        return False


def as_sent(task: Task) -> list[dict[str, Any]]:
    """What a follower gets that nobody cuts off."""
    return [{"id": i.cursor, "event": i.type, "data": i.data.model_dump(mode="json")} for i in task.stream()]


def received(event: dict[str, str]) -> dict[str, Any]:
    return event | {"data": json.loads(event["data"])}


def cut_off(web: Web, task_id: str, seed: int) -> list[dict[str, Any]]:
    """What comes of a client that hangs up after a few events, and resumes after the last whole one that it had."""
    dice = random.Random(seed)
    got: list[dict[str, Any]] = []
    for number in range(CUTS + 1):
        with closing(web.events(task_id, got[-1]["id"] if got else None)) as events:
            for event in events:
                got.append(received(event))
                if number < CUTS and dice.random() < 0.15:
                    break
    return got


def test_clients_that_are_cut_off_lose_and_repeat_nothing(folder_stack: Stack, web: Web) -> None:
    folder_stack.model.script(lengthy)
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    channel = f"roboco:{{{task.task_id}}}:content"
    client: Any = folder_stack.orchestrator._client
    with ThreadPoolExecutor(6) as threads:
        clients = [threads.submit(cut_off, web, task.task_id, seed) for seed in range(6)]
        until(lambda: client.pubsub_numsub(channel)[0][1], 20, "the service listens")
        expected = as_sent(task)
        for done in clients:
            assert done.result(60) == expected
    assert expected[-1]["event"] == "event_task_end"
    assert cut_off(web, task.task_id, 7) == expected, "after the end"
    until(lambda: client.pubsub_numsub(channel)[0][1] == 0, 20, "the service listens no more")


def test_what_a_browser_cannot_follow_is_said(folder_stack: Stack, web: Web) -> None:
    with web.get("/tasks/nothing/events") as answer:
        assert (answer.status, json.load(answer)) == (404, {"detail": "no task 'nothing' in this workspace"})
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    with web.get(f"/tasks/{task.task_id}/events", **{"Last-Event-ID": "17"}) as answer:
        assert answer.status == 404
        assert json.load(answer)["detail"] == "cursor '17' is not one of a stream item"


def test_a_browser_asks_again_while_redis_is_away(folder_stack: Stack, web: Web) -> None:
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    task.pause()
    os.kill(folder_stack.valkey.pid, signal.SIGKILL)
    try:
        with web.get(f"/tasks/{task.task_id}/events") as answer:
            assert (answer.status, answer.getheader("Content-Type"), answer.read()) == (200, "text/event-stream", b"")
    finally:
        folder_stack.restart_redis(keep=True)
