"""Files of a task over HTTP."""

import asyncio
import hashlib
import threading
from dataclasses import replace
from typing import Any

import pytest

from roboco.client.task import Task
from roboco.errors import TransientError
from roboco.gateway.calls import OWNER
from roboco.gateway.rest import files
from tests.support.gateway_rest import CALLERS, KEY, RestWorld, rest_world

DATA = bytes(range(256)) * 5000


def put(rest: RestWorld, path: str, content: Any, **headers: str) -> Any:
    """Return the response to an upload."""
    return rest.client.put(path, content=content, headers={KEY: "acme", **headers})


@pytest.fixture
def stored(rest: RestWorld) -> RestWorld:
    """Return a gateway with a task that has a file."""
    assert put(rest, "/v1/tasks/t/files/a.bin", DATA).status_code == 201
    rest.run("acme:t", artifacts=["a.bin"])
    return rest


def test_a_file_is_uploaded_before_its_task_and_returned_whole(stored: RestWorld) -> None:
    answer = stored.get("/v1/tasks/t/files/a.bin")
    assert (answer.status_code, answer.content) == (200, DATA)
    assert answer.headers["content-length"] == str(len(DATA))
    assert answer.headers["content-disposition"] == 'attachment; filename="a.bin"'
    [listed] = stored.get("/v1/tasks/t/files").json()["files"]
    assert (listed["size"], listed["sha256"]) == (len(DATA), hashlib.sha256(DATA).hexdigest())
    head = stored.client.head("/v1/tasks/t/files/a.bin", headers={KEY: "acme"})
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(DATA)))
    assert head.headers["etag"] == answer.headers["etag"]


def test_ranges_and_tags(stored: RestWorld) -> None:
    path = "/v1/tasks/t/files/a.bin"
    tag = stored.get(path).headers["etag"]
    part = stored.get(path, Range="bytes=300000-899999")
    assert (part.status_code, part.content) == (206, DATA[300_000:900_000])
    assert part.headers["content-range"] == f"bytes 300000-899999/{len(DATA)}"
    resumed = stored.client.get(path, headers={KEY: "acme", "Range": "bytes=-5", "If-Range": tag})
    assert (resumed.status_code, resumed.content) == (206, DATA[-5:])
    changed = stored.client.get(path, headers={KEY: "acme", "Range": "bytes=-5", "If-Range": '"x"'})
    assert (changed.status_code, changed.content) == (200, DATA)
    beyond = stored.get(path, Range=f"bytes={len(DATA)}-")
    assert (beyond.status_code, beyond.json()["code"]) == (416, "range_not_satisfiable")
    assert beyond.headers["content-range"] == f"bytes */{len(DATA)}"
    known = stored.client.get(path, headers={KEY: "acme", "If-None-Match": tag})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize("asked", ["bytes=0-3", "bytes=99999999-"])
def test_head_ignores_ranges(stored: RestWorld, asked: str) -> None:
    head = stored.client.head("/v1/tasks/t/files/a.bin", headers={KEY: "acme", "Range": asked})
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(DATA)))
    assert "content-range" not in head.headers


def test_a_hostile_file_is_sent_as_bytes(rest: RestWorld) -> None:
    rest.run("acme:t")
    page = b"<html><script>alert(1)</script></html>"
    assert put(rest, "/v1/tasks/t/files/a.html", page).json()["mime_type"] == "text/html"
    answer = rest.get("/v1/tasks/t/files/a.html")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_file_that_is_too_large_leaves_nothing(tmp_path: Any) -> None:
    with rest_world(tmp_path, max_upload=2000) as rest:

        def pieces() -> Any:
            yield from [b"x" * 500] * 5

        declared, streamed = (put(rest, "/v1/tasks/t/files/a", body) for body in (b"x" * 2001, pieces()))
        for answer in (declared, streamed):
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert rest.world.files.held == {}
        assert put(rest, "/v1/tasks/t/files/a", b"x" * 2000).status_code == 201


def test_names_that_leave_the_folder_are_refused(rest: RestWorld) -> None:
    for name in (".hidden", "a%2Fb", "..%2Ftask.json", "a b", "x" * 129):
        assert put(rest, f"/v1/tasks/t/files/{name}", b"x").status_code in (404, 405, 422), name
    assert rest.world.files.held == {}


def test_a_store_that_fails_in_the_middle_ends_the_connection(
    stored: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets fewer bytes than Content-Length: it cannot take half a file for the whole one."""
    read, reads = stored.world.files.read, iter(range(10**6))

    def failing(path: str, start: int, length: int) -> bytes | None:
        if next(reads) > 1:
            raise TransientError("silent")
        return read(path, start, length)

    monkeypatch.setattr(stored.world.files, "read", failing)
    received = asyncio.run(_receive(stored, "/v1/tasks/t/files/a.bin"))
    assert received == [200, DATA[: 2 * files.PIECE_BYTES]]


async def _receive(rest: RestWorld, path: str) -> list[Any]:
    """Return the status and the bytes of a response whose application fails in the middle."""
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    with pytest.raises(RuntimeError, match="already started"):
        await rest.app(_scope("GET", path), receive, send)
    return [status, body]


def _scope(method: str, path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (KEY.encode(), b"acme")],
    }


def test_many_downloads_of_one_owner_do_not_delay_that_of_another(
    stored: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, read, go = stored.app.state.gateway, Task.artifact_bytes, threading.Event()

    def slow(task: Task, name: str, start: int, length: int) -> bytes:
        assert OWNER.get() != "acme" or go.wait(60)
        return read(task, name, start, length)

    async def download(owner: str) -> bytes:
        OWNER.set(owner)
        pieces = files._pieces(gateway, task, "a.bin", 0, len(DATA))
        return b"".join([piece async for piece in pieces])

    async def all_downloads() -> list[bytes]:
        slow_ones = [asyncio.create_task(download("acme")) for _ in range(50)]
        try:
            async with asyncio.timeout(60):
                return [await asyncio.create_task(download("other"))]
        finally:
            go.set()
            await asyncio.gather(*slow_ones)

    task = stored.orchestrator.task("acme:t")
    monkeypatch.setattr(Task, "artifact_bytes", slow)
    assert asyncio.run(all_downloads()) == [DATA]


def test_files_for_a_task_that_does_not_exist_belong_to_their_caller(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CALLERS, "second", replace(CALLERS["acme"], by="key:second"))
    path = "/v1/tasks/t/files/a.csv"
    assert put(rest, path, b"planted", **{KEY: "second"}).status_code == 201
    assert put(rest, path, b"mine").status_code == 409
    assert [one["artifact_id"] for one in rest.get("/v1/tasks/t/files", caller="second").json()["files"]] == ["a.csv"]
    assert rest.get("/v1/tasks/t/files").status_code == 404
    body = {"team": "desk", "prompt": "hello", "task_id": "t", "artifacts": ["a.csv"]}
    assert rest.post("/v1/tasks", body).status_code == 400
    rest.run("acme:t")
    assert rest.get("/v1/tasks/t/files").json()["files"] == []
    assert rest.get(path).status_code == 404
    assert put(rest, path, b"mine").status_code == 201
    assert rest.get(path).content == b"mine"


def test_a_file_that_arrives_after_the_task_of_another_caller_is_removed(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CALLERS, "second", replace(CALLERS["acme"], by="key:second"))
    stored = Task.upload

    def late(task: Task, *given: Any) -> Any:
        rest.run("acme:t")
        return stored(task, *given)

    monkeypatch.setattr(Task, "upload", late)
    assert put(rest, "/v1/tasks/t/files/a.csv", b"planted", **{KEY: "second"}).status_code == 409
    assert rest.get("/v1/tasks/t/files").json()["files"] == []


def test_files_without_a_task_are_removed_after_a_day(rest: RestWorld) -> None:
    for name in ("t", "used"):
        assert put(rest, f"/v1/tasks/{name}/files/a.csv", b"x").status_code == 201
    rest.run("acme:used", artifacts=["a.csv"])
    rest.world.clock.move(86_401)
    rest.world.sweep()
    rest.world.drain()
    assert rest.get("/v1/tasks/t/files").status_code == 404
    assert not [path for path in rest.world.files.held if path.startswith("acme:t/")]
    assert rest.get("/v1/tasks/used/files/a.csv").content == b"x"
