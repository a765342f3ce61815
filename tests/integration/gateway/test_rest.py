"""The REST API under uvicorn, over real Redis, workers and stores, behind two processes that share nothing."""

import hashlib
import itertools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml

from tests.support.gateway_process import GatewayProcess
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

SLOW = Reply(chunks=["word "] * 2000, interval=0.02)
MEGABYTE = 1024 * 1024
_numbers = itertools.count()


class Gateways:
    """Two gateways: each request goes to the next one."""

    def __init__(self, stack: Stack, servers: list[tuple[GatewayProcess, httpx.Client]]) -> None:
        self.stack = stack
        self.servers = servers
        self._next = itertools.cycle(client for _, client in servers)

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Return the response of the next gateway."""
        return next(self._next).request(method, path, **options)

    def create(self, **fields: Any) -> str:
        """Create a task of the team desk, and return its path."""
        response = self.call("POST", "/v1/tasks", json={"team": "desk", "prompt": "hello"} | fields)
        assert response.status_code == 201, response.text
        return str(response.headers["location"])

    def settled(self, path: str) -> Any:
        """Return the result of a task once it rests."""
        return self.call("GET", f"{path}/result?wait=20").json()


@pytest.fixture(scope="module")
def gateways(stack: Stack) -> Iterator[Gateways]:
    teams = stack.folder / "teams"
    teams.mkdir()
    (teams / "desk.yaml").write_text(
        yaml.safe_dump({"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]})
    )
    stack.settings = stack.settings.model_copy(update={"teams_dir": teams})
    with ExitStack() as exits:
        processes = [exits.enter_context(GatewayProcess(stack)) for _ in range(2)]
        clients = [exits.enter_context(httpx.Client(base_url=one.url, timeout=60)) for one in processes]
        yield Gateways(stack, list(zip(processes, clients, strict=True)))


def test_a_task_is_created_followed_and_read_on_any_gateway(gateways: Gateways) -> None:
    key = {"Idempotency-Key": f"key-{next(_numbers)}"}
    body = {"team": "desk", "prompt": "hello", "conversation": True}
    responses = [gateways.call("POST", "/v1/tasks", json=body, headers=key) for _ in range(3)]
    assert [one.status_code for one in responses] == [201, 200, 200]
    path = responses[0].headers["location"]
    first = gateways.settled(path)
    assert (first["status"], bool(first["text"])) == ("user_turn", True)
    sent = [gateways.call("POST", f"{path}/messages?wait=20", json={"message": "more"}, headers=key) for _ in range(2)]
    assert [one.status_code for one in sent] == [202, 202]
    assert {one.json()["applied_at_seq"] for one in sent} == {2}
    assert gateways.settled(path)["usage"]["steps"] == 4
    history = gateways.call("GET", f"{path}/history").json()
    assert [step["agent_name"] for step in history["steps"]] == ["user", "writer", "user", "writer"]
    assert [step["metadata"].get("by") for step in history["steps"]][::2] == ["local", "local"]
    assert gateways.call("GET", f"{path}/verify").json()["intact"]
    assert gateways.call("POST", f"{path}/stop?wait=20").json()["applied_at_seq"] == 4
    assert gateways.settled(path)["status"] == "cancelled"


def test_an_interruption_closes_the_models_connection_and_its_receipt_says_when(gateways: Gateways) -> None:
    gateways.stack.model.script(lambda request: SLOW)
    try:
        path = gateways.create(conversation=True)
        until(lambda: "word" in gateways.call("GET", f"{path}/session").text, 60, "the model speaks")
        receipt = gateways.call("POST", f"{path}/interrupt?wait=20", json={}).json()
    finally:
        gateways.stack.model.script(answer)
    assert receipt["applied_at_seq"] is not None
    assert receipt["closed_at"] is not None
    assert gateways.settled(path)["status"] == "user_turn"
    assert gateways.call("POST", f"{path}/stop?wait=20").status_code == 202


def test_a_large_file_passes_in_bounded_memory(gateways: Gateways) -> None:
    size, piece = 128, os.urandom(MEGABYTE)
    whole = hashlib.sha256(piece * size).hexdigest()
    before = [_peak_memory(server) for server, _ in gateways.servers]
    task_id = f"file-{next(_numbers)}-{gateways.stack.folder.name}"
    path = f"/v1/tasks/{task_id}/files/large.bin"
    stored = gateways.call("PUT", path, content=(piece for _ in range(size)))
    assert (stored.status_code, stored.json()["sha256"]) == (201, whole), stored.text
    gateways.create(task_id=task_id, artifacts=["large.bin"])
    with gateways.servers[0][1].stream("GET", path) as response:
        assert response.status_code == 200
        found = hashlib.sha256()
        for data in response.iter_bytes():
            found.update(data)
    assert found.hexdigest() == whole
    after = [_peak_memory(server) for server, _ in gateways.servers]
    growth = max(now - then for now, then in zip(after, before, strict=True))
    assert growth < 96 * MEGABYTE, growth
    part = gateways.call("GET", path, headers={"Range": f"bytes={MEGABYTE - 10}-{MEGABYTE + 9}"})
    assert (part.status_code, part.content) == (206, piece[-10:] + piece[:10])


def _peak_memory(gateway: GatewayProcess) -> int:
    """Return the largest number of bytes that the process has had in memory."""
    lines = Path(f"/proc/{gateway.server.pid}/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024


def test_an_upload_that_is_cut_leaves_nothing_and_can_be_repeated(gateways: Gateways) -> None:
    name = f"cut-{next(_numbers)}-{gateways.stack.folder.name}"
    path = f"/v1/tasks/{name}/files/a.bin"
    _, client = gateways.servers[0]
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as raw:
        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {40 * MEGABYTE}\r\n\r\n"
        raw.sendall(head.encode() + bytes(20 * MEGABYTE))
    files = gateways.stack.orchestrator._engine.workspace.files
    time.sleep(0.2)
    until(lambda: not any(files.names(f"{name}/{folder}/") for folder in ("uploads", "artifacts")), 60, "all is gone")
    assert files.names(f"{name}/artifact_info/") == []
    assert gateways.call("PUT", path, content=b"whole").json()["artifact_id"] == "a.bin"
