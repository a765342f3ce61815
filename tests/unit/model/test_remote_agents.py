"""Answers of remote agents are hostile input: they are read within limits, and any cut leads to the same text."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.model import a2a_wire, reply_assembly
from roboco.model.a2a_wire import A2aWire, _Reading
from roboco.model.errors import ServerFailure, model_error
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.wire import Output
from roboco.ports.model import Request
from roboco.ports.remote_task import RemoteTask
from tests.support.memory_ports.workspace import MemoryFiles
from tests.support.processor_time import assert_costs_at_most

DONE = {"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED"}}}
BEGUN = {"task": {"id": "remote-1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}


def remote_task(task: str = "", cancels: bool = False) -> RemoteTask:
    """Return the task of a turn: an earlier attempt has begun this one, or none has sent a message."""
    remote = RemoteTask(MemoryFiles(), "t1", 3, 1, "http://far/a2a", cancels)
    if task:
        remote.note(task)
    return remote


def piece(name: str, text: str, append: bool = False) -> dict[str, Any]:
    """Return an event with a piece of an artifact."""
    return {"artifactUpdate": {"artifact": {"artifactId": name, "parts": [{"text": text}]}, "append": append}}


def read(events: Sequence[dict[str, Any]], reading: _Reading | None = None) -> str:
    """Return the text that is said of these events."""
    said: list[str] = []
    found = reading or _Reading(ReplyAssembly("remote"), Output(said.append, said.append, lambda: None))
    for event in events:
        found.add(event)
    if reading is None:
        found.finish()
    return "".join(said)


PIECES = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=3)), max_size=12)


def stream_of(pieces: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the events of artifacts, one after the other."""
    ordered = sorted(pieces, key=lambda one: one[0])
    return [piece(name, text, any(one[0] == name for one in ordered[:at])) for at, (name, text) in enumerate(ordered)]


@given(PIECES, st.integers(0, 12), st.booleans())
def test_a_cut_and_a_second_reading_say_the_same(pieces: list[tuple[str, str]], cut: int, whole: bool) -> None:
    events = [BEGUN, *stream_of(pieces), DONE]
    texts: dict[str, str] = {}
    for name, text in sorted(pieces, key=lambda one: one[0]):
        texts[name] = texts.get(name, "") + text
    expected = "\n\n".join(filter(None, texts.values())) or "(no text)"
    assert read(events) == expected
    begun = events[: min(cut, len(pieces)) + 1]
    artifacts = [{"artifactId": name, "parts": [{"text": text}]} for name, text in texts.items()]
    ended = {"id": "remote-1", "artifacts": artifacts, "status": {"state": "TASK_STATE_COMPLETED"}}
    assert read([*begun, *([{"task": ended}] if whole else events)]) == expected


@pytest.mark.parametrize("asks", [False, True])
def test_an_answer_may_be_in_the_last_status_alone(asks: bool) -> None:
    state = "TASK_STATE_INPUT_REQUIRED" if asks else "TASK_STATE_COMPLETED"
    last = {"statusUpdate": {"status": {"state": state, "message": {"parts": [{"text": "four"}]}}}}
    assert read([BEGUN, last]) == "four"
    assert read([BEGUN, piece("a", "one"), last]) == ("one\n\nfour" if asks else "one")
    assert read([BEGUN, {"statusUpdate": {"status": {"state": state}}}]) == "(no text)"


def test_a_replaced_text_begins_the_turn_again() -> None:
    with pytest.raises(ModelError, match="has replaced its text") as caught:
        read([BEGUN, piece("a", "one"), piece("a", "two"), DONE])
    assert caught.value.retryable
    with pytest.raises(ModelError, match="has replaced its text"):
        read([BEGUN, piece("a", "one"), piece("a", "on"), DONE])
    assert read([BEGUN, piece("a", "one"), piece("a", ""), piece("a", "one two", True), DONE]) == "one two"


def test_many_pieces_and_replacements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_assembly, "MAX_TEXT_BYTES", 4000)
    monkeypatch.setattr(a2a_wire, "MAX_COMPARISONS", 10)
    monkeypatch.setattr(a2a_wire, "MAX_ARTIFACTS", 10)
    assembly = ReplyAssembly("remote")
    reading = _Reading(assembly, Output(lambda _: None, lambda _: None, lambda: None))
    read([BEGUN, *(piece("a", "x" * 40, number > 0) for number in range(110))], reading)
    assert assembly.exceeded_limit
    with pytest.raises(ModelError, match="replaced"):
        read([piece("a", "x" * 1000)] * 30, _Reading(ReplyAssembly(""), None))
    with pytest.raises(ModelError, match="artifacts"):
        read([piece(f"{number}" * 1000, "") for number in range(20)], _Reading(ReplyAssembly(""), None))


def test_four_times_the_pieces_take_four_times_as_long() -> None:
    """Also after an artifact that begins again, whose text is less than what was said."""

    def read_pieces(before: int, pieces: int) -> None:
        added = [piece("a", "x", append=True)] * pieces
        read([BEGUN, piece("a", "x" * before), piece("a", ""), *added], _Reading(ReplyAssembly(""), None))

    assert_costs_at_most(8, lambda: read_pieces(900_000, 8000), lambda: read_pieces(225_000, 2000))


async def _exchange(answer: Any, remote: RemoteTask) -> str:
    """Return the text of a turn before a server with this handler."""
    app = web.Application(client_max_size=2**22)
    app.router.add_post("/a2a", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [(_, port)] = [address[:2] for address in runner.addresses]
    profile = ModelProfile(model="far", provider="a2a", base_url=f"http://127.0.0.1:{port}/a2a")
    request = Request(profile, ({"role": "user", "content": "act"},), (), remote=remote)
    said: list[str] = []
    wire = A2aWire()
    try:
        assembly = ReplyAssembly("far")
        await wire.exchange(request, assembly, Output(said.append, said.append, lambda: None))
    finally:
        await wire.close()
        await runner.cleanup()
    return "".join(said)


def sse(*events: dict[str, Any]) -> web.Response:
    """Return a stream of results."""
    body = "".join(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': event})}\n\n" for event in events)
    return web.Response(text=body, content_type="text/event-stream")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (lambda: web.Response(text="<html>sign in</html>", content_type="text/html"), "sign in"),
        (lambda: web.Response(body=b"[" * 200_000), "no JSON"),
        (lambda: web.Response(body=b"data: " + b"x" * 6_000_000), "more than 5000000 bytes"),
        (lambda: web.Response(status=307, headers={"Location": "http://169.254.169.254/"}), "redirects"),
        (lambda: web.json_response({"result": 7}), "no answer of JSON-RPC"),
        (lambda: sse({"task": {"id": "r", "status": {"state": "TASK_STATE_FAILED"}}}), "names no reason"),
        (lambda: sse(), "named no task"),
        (lambda: web.json_response(refusal(-32601)), "before A2A 1.0"),
        (lambda: sse({"task": {"id": "\ud800", "status": {}}}), "id is no text"),
        (lambda: sse(BEGUN, {"message": {"parts": [{"data": {"n": float("nan")}}]}}), "data are no JSON"),
    ],
)
def test_a_hostile_answer_is_an_error(response: Any, text: str) -> None:
    async def answer(_: web.Request) -> Any:
        return response()

    with pytest.raises((ModelError, ServerFailure), match=text):
        asyncio.run(_exchange(answer, remote_task()))


def refusal(code: int) -> dict[str, Any]:
    """Return an error of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}


def test_a_refused_message_may_be_sent_again_and_another_may_not() -> None:
    for code, refused in ((-32602, True), (-32603, False), (-32000, False), (-32006, False), (None, False)):

        async def answer(_: web.Request, code: int | None = code) -> web.Response:
            return web.Response(status=500) if code is None else web.json_response(refusal(code))

        remote = remote_task()
        with pytest.raises(ServerFailure):
            asyncio.run(_exchange(answer, remote))
        assert remote.record.refused is refused


@pytest.mark.parametrize("code", [-32602, -32004])
def test_an_error_after_the_first_event_is_no_refusal(code: int) -> None:
    methods: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        methods.append((await request.json())["method"])
        if methods[-1] == "GetTask":
            ended = BEGUN["task"] | DONE["statusUpdate"] | {"artifacts": [{"parts": [{"text": "x"}]}]}
            return web.json_response({"result": ended})
        return web.Response(text=f"data: {json.dumps({'result': BEGUN})}\n\ndata: {json.dumps(refusal(code))}\n\n")

    remote = remote_task()
    assert asyncio.run(_exchange(answer, remote)) == "x"
    assert (remote.record.refused, remote.record.task) == (False, "remote-1")
    assert methods == ["SendStreamingMessage", "SubscribeToTask", "GetTask"]


def test_an_agent_without_streams_is_asked_until_its_task_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_wire, "POLL_SECONDS", (0.01,))
    methods: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        methods.append(method := body["method"])
        assert method != "SendMessage" or body["params"]["configuration"] == {"returnImmediately": True}
        working = {"id": "r", "status": {"state": "TASK_STATE_WORKING"}}
        ended = {"id": "r", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "done"}]}]}
        results = {"SendMessage": {"task": working}, "GetTask": working if methods.count("GetTask") < 2 else ended}
        if method not in results:
            return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "no"}})
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": results[method]})

    remote = remote_task()
    assert asyncio.run(_exchange(answer, remote)) == "done"
    assert remote.record.task == "r"
    assert methods.count("SendMessage") == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_closed_call_ends_no_task_and_learns_its_name(named: bool) -> None:
    methods: list[str] = []
    began = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        methods.append((await request.json())["method"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if not named:
            began.set()
            await asyncio.sleep(0.2)
        await response.write(f"data: {json.dumps({'result': BEGUN})}\n\n".encode())
        began.set()
        await asyncio.sleep(30)
        return response

    async def drive() -> None:
        remote = remote_task()
        turn = asyncio.create_task(_exchange(answer, remote))
        await began.wait()
        while named and not remote.record.task:
            await asyncio.sleep(0.01)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert remote.record.task == "remote-1"

    asyncio.run(drive())
    assert methods == ["SendStreamingMessage"]


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ({"CancelTask": "CANCELED"}, "CANCELED"),
        ({"CancelTask": "WORKING", "GetTask": "CANCELED"}, "CANCELED"),
        ({"CancelTask": -32002, "GetTask": "COMPLETED"}, "COMPLETED"),
        ({"CancelTask": -32001}, "NOT_FOUND"),
        ({"CancelTask": -32002, "GetTask": "WORKING"}, None),
        ({"CancelTask": -32603, "GetTask": -32603}, None),
    ],
)
def test_a_cancellation_says_how_the_task_has_ended(answers: dict[str, Any], state: str | None) -> None:
    async def answer(request: web.Request) -> web.Response:
        found = answers[(await request.json())["method"]]
        if isinstance(found, int):
            return web.json_response(refusal(found))
        return web.json_response({"result": {"id": "r", "status": {"state": f"TASK_STATE_{found}"}}})

    remote = remote_task("r", cancels=True)
    if state is None:
        with pytest.raises(ServerFailure):
            asyncio.run(_exchange(answer, remote))
        return
    assert asyncio.run(_exchange(answer, remote)) == state


def test_a_busy_agent_is_asked_again_for_a_task_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_wire, "POLL_SECONDS", (0.01,))
    methods: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        methods.append((await request.json())["method"])
        if len(methods) < 3:
            return web.Response(status=503, headers={"Retry-After": "0"})
        return web.json_response({"result": BEGUN["task"] | DONE["statusUpdate"]})

    remote = remote_task("remote-1")
    asyncio.run(_exchange(answer, remote))
    assert (remote.record.refused, remote.record.end) == (False, "COMPLETED")
    assert methods == ["SubscribeToTask", "SubscribeToTask", "SubscribeToTask", "GetTask"]


def test_a_busy_agent_has_not_accepted_the_message() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "7"})

    remote = remote_task()
    with pytest.raises(ServerFailure) as caught:
        asyncio.run(_exchange(answer, remote))
    error = model_error(caught.value, Request(ModelProfile(model="far"), (), ()))
    assert (remote.record.refused, error.retryable, error.retry_after) == (True, True, 7.0)
