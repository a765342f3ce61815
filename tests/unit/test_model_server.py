"""The scripted model server, seen by the real client."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import (
    APIConnectionError,
    APITimeoutError,
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    RateLimitError,
    Stream,
)
from openai.types.chat import ChatCompletionChunk

from tests.support.servers.model_server import ModelServer, Reply, Request, RequestRecord

ROOT = Path(__file__).parents[2]
TOOLS: Any = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("add", "find")]
SYSTEM: Any = {"role": "system", "content": "be short"}
USER: Any = {"role": "user", "content": [{"type": "text", "text": "grüß dich"}]}


def asked(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "add", "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


def answered(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"result of {call_id}"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def any_client() -> Iterator[OpenAI]:
    """One client for all tests, as making its TLS context is slow."""
    with OpenAI(base_url="http://127.0.0.1:1", api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture
def client(server: ModelServer, any_client: OpenAI) -> OpenAI:
    return any_client.with_options(base_url=server.base_url)


def opened(client: OpenAI, *messages: Any, **options: Any) -> Stream[ChatCompletionChunk]:
    create: Callable[..., Stream[ChatCompletionChunk]] = client.chat.completions.create
    return create(model="m", messages=messages or [USER], stream=True, **options)


def stream(client: OpenAI, *messages: Any, **options: Any) -> list[ChatCompletionChunk]:
    with opened(client, *messages, **options) as chunks:
        return list(chunks)


def texts(chunks: list[ChatCompletionChunk]) -> list[str]:
    return [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(text="one two  three"), ["one ", "two  ", "three"]),
        (Reply(text="abcdefg", chunks=3), ["ab", "cd", "efg"]),
        (Reply(chunks=["ü", "\n", "漢"]), ["ü", "\n", "漢"]),
        (Reply(), []),
    ],
)
def test_text_is_streamed_in_its_chunks(server: ModelServer, client: OpenAI, reply: Reply, expected: list[str]) -> None:
    server.script(lambda request: reply)
    chunks = stream(client)
    assert texts(chunks) == expected
    assert chunks[-1].choices[0].finish_reason == "stop"
    [record] = server.requests
    assert (record.status, record.completed, record.chunks_sent) == (200, True, len(expected))
    assert record.request.headers["authorization"] == "Bearer key"


def test_the_default_is_an_echo(client: OpenAI) -> None:
    assert "".join(texts(stream(client))) == "echo: grüß dich"


def test_tool_calls_come_in_interleaved_pieces(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(text="wait", tool_calls=[("add", {"a": 1, "b": 2}), ("find", "{no json")]))
    chunks = stream(client, tools=TOOLS)
    deltas = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
    assert [(d.index, d.function.name) for d in deltas if d.id and d.function] == [(0, "add"), (1, "find")]
    assert [d.index for d in deltas] == [0, 1] * 5
    joined = {n: "".join(d.function.arguments or "" for d in deltas if d.index == n and d.function) for n in (0, 1)}
    assert joined == {0: json.dumps({"a": 1, "b": 2}), 1: "{no json"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert [d.id for d in deltas[:2]] == [
        call.id for c in stream(client, tools=TOOLS)[2:4] for call in c.choices[0].delta.tool_calls or []
    ]


def test_usage_comes_last_if_wanted(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(text="one two three"))
    last = stream(client, stream_options={"include_usage": True})[-1]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    assert last.usage.prompt_tokens > 0
    assert not any(chunk.usage for chunk in stream(client))


def test_a_whole_completion(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(tool_calls=[("add", {"a": 1})], usage=(7, 5)))
    answer = client.chat.completions.create(model="m", messages=[USER])
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 1}')
    assert answer.usage is not None
    assert answer.usage.total_tokens == 12


def test_the_request_as_the_responder_sees_it(server: ModelServer, client: OpenAI) -> None:
    seen: list[Request] = []

    def respond(request: Request) -> Reply:
        seen.append(request)
        return Reply()

    server.script(respond)
    stream(client, SYSTEM, USER, asked("a", "b"), answered("b"), answered("a"), tools=TOOLS)
    [request] = seen
    assert (request.model, request.system, request.last_user) == ("m", "be short", "grüß dich")
    assert request.tools == ["add", "find"]
    assert request.tool_results == [("b", "result of b"), ("a", "result of a")]
    assert [request.count(role) for role in ("assistant", "tool", "user")] == [1, 2, 1]
    assert server.violations == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, asked("a")], "lacks tool messages for ['a']"),
        ([USER, asked("a", "b"), answered("a"), USER], "lacks tool messages for ['b'] before messages[3]"),
        ([USER, asked("a"), USER, answered("a")], "lacks tool messages for ['a'] before messages[2]"),
        ([USER, answered("a")], "messages[1] answers 'a'"),
        ([USER, asked("a"), answered("a"), answered("a")], "messages[3] answers 'a'"),
        ([USER, asked("a", "a"), answered("a")], "an id twice"),
        ([USER, asked("a", arguments="[1]"), answered("a")], "expected a string of a JSON object"),
        ([{"role": "robot", "content": "hi"}], "has role 'robot'"),
        ([{"role": "assistant"}], "has content None"),
    ],
)
def test_unsound_messages_are_refused(server: ModelServer, client: OpenAI, messages: list[Any], expected: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        stream(client, *messages)
    assert refused.value.type == "invalid_request_error"
    assert expected in str(refused.value)
    assert expected in server.violations[0]


def test_no_messages_and_no_tools_are_refused(server: ModelServer, client: OpenAI) -> None:
    with pytest.raises(BadRequestError):
        client.chat.completions.create(model="m", messages=[], tools=[])
    assert ["'messages'" in server.violations[0], "'tools'" in server.violations[1]] == [True, True]


def test_the_next_requests_fail(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(2, Reply(status=429, text="slow down", code="rate", headers={"Retry-After": "7"}))
    for _ in range(2):
        with pytest.raises(RateLimitError, match="slow down") as limited:
            stream(client)
        assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate", "7")
    assert texts(stream(client))
    assert [record.status for record in server.requests] == [429, 429, 200]


def test_a_raising_responder_is_told(server: ModelServer, client: OpenAI) -> None:
    known: dict[str, str] = {}
    server.script(lambda request: Reply(text=known[request.model]))
    with pytest.raises(InternalServerError):
        stream(client)
    assert server.violations == ["the responder raised KeyError('m')"]


@pytest.mark.parametrize(("after", "received"), [(0, 0), (2, 2), (9, 3)])
def test_a_broken_stream(server: ModelServer, client: OpenAI, after: int, received: int) -> None:
    server.fail_next(1, Reply(text="one two three", break_after=after))
    chunks: list[ChatCompletionChunk] = []
    with pytest.raises(APIConnectionError):
        chunks += opened(client)
    assert len(texts(chunks)) == received
    [record] = server.requests
    assert (record.chunks_sent, record.completed, record.client_disconnected_at) == (received, False, None)


def test_garbage_instead_of_an_end(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(1, Reply(text="one", garbage=b"data: {oops\n\n"))
    with pytest.raises(json.JSONDecodeError):
        stream(client)
    server.fail_next(1, Reply(garbage=b"<html>bad gateway</html>"))
    assert texts(stream(client)) == []


def disconnected(records: list[RequestRecord]) -> bool:
    return bool(records) and all(record.client_disconnected_at for record in records)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_silent_server_sees_the_client_give_up(server: ModelServer, client: OpenAI, streamed: bool) -> None:
    server.script(lambda request: Reply(text="never", hang_after=0))
    with pytest.raises(APITimeoutError):
        client.chat.completions.create(model="m", messages=[USER], stream=streamed, timeout=0.2)
    [record] = server.wait_for(disconnected)
    assert (record.chunks_sent, record.completed) == (0, False)


@pytest.mark.parametrize("reply", [Reply(text="a b", hang_after=1), Reply(text="a b", interval=3600)])
def test_a_closed_stream_is_noticed_at_once(server: ModelServer, client: OpenAI, reply: Reply) -> None:
    server.script(lambda request: reply)
    with opened(client) as chunks:
        assert texts([next(chunks), next(chunks)]) == ["a "]
        assert not disconnected(server.requests)
    [record] = server.wait_for(disconnected)
    assert (record.chunks_sent, record.completed) == (1, False)


def test_a_wait_in_vain_tells_what_there_is(server: ModelServer, client: OpenAI) -> None:
    stream(client)
    with pytest.raises(TimeoutError, match="completed=True"):
        server.wait_for(lambda records: len(records) > 1, timeout=0)


def test_fifty_streams_at_once(server: ModelServer) -> None:
    def respond(request: Request) -> Reply:
        hang_after = 2 if request.model == "hang" else None
        return Reply(text=f"you said {request.last_user}", hang_after=hang_after)

    async def ask(client: AsyncOpenAI, model: str, n: int) -> str:
        chunks = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": str(n)}], stream=True
        )
        return "".join([c.choices[0].delta.content or "" async for c in chunks])

    async def together() -> list[str]:
        """Fifty whole answers, while fifty other streams hang."""
        async with AsyncOpenAI(base_url=server.base_url, api_key="key") as client:
            hanging = [asyncio.create_task(ask(client, "hang", n)) for n in range(50)]
            await asyncio.to_thread(server.wait_for, lambda rs: sum(r.chunks_sent for r in rs) == 100)
            answers = await asyncio.gather(*(ask(client, "talk", n) for n in range(50)))
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            return answers

    server.script(respond)
    assert asyncio.run(together()) == [f"you said {n}" for n in range(50)]
    records = server.wait_for(lambda rs: disconnected([r for r in rs if r.request.model == "hang"]))
    assert [r.completed for r in records] == [False] * 50 + [True] * 50


def test_models_and_unknown_paths(server: ModelServer, client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    with pytest.raises(NotFoundError, match="there is no GET /v1/files"):
        client.files.list()
    assert [record.request.path for record in server.requests] == ["/v1/models", "/v1/files"]


def test_a_stopped_server_starts_again_at_its_place(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(1, Reply(text="a b", hang_after=1))
    with opened(client) as chunks:
        assert texts([next(chunks), next(chunks)]) == ["a "]
        server.stop()
        with pytest.raises(APIConnectionError):
            next(chunks)
    with pytest.raises(APIConnectionError):
        stream(client)
    server.start()
    assert texts(stream(client))


def test_as_a_process(any_client: OpenAI) -> None:
    command = [sys.executable, "-m", "tests.support.servers.model_server", "--port", "0", "--tokens", "4"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = any_client.with_options(base_url=process.stdout.readline().strip())
        assert texts(stream(client)) == ["token "] * 4
        process.terminate()
        assert process.wait(timeout=5) == 0
