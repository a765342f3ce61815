"""The scripted model server, called by the OpenAI client."""

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
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("add", "find")
]
SYSTEM: Any = {"role": "system", "content": "be short"}
USER: Any = {"role": "user", "content": [{"type": "text", "text": "grüß dich"}]}


def assistant_calls(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "add", "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


def tool_message(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"result of {call_id}"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def any_client() -> Iterator[OpenAI]:
    """Yield one client for all tests, because creating its TLS context is slow."""
    with OpenAI(base_url="http://127.0.0.1:1", api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture
def client(server: ModelServer, any_client: OpenAI) -> OpenAI:
    return any_client.with_options(base_url=server.base_url)


def open_stream(client: OpenAI, *messages: Any, **options: Any) -> Stream[ChatCompletionChunk]:
    create: Callable[..., Stream[ChatCompletionChunk]] = client.chat.completions.create
    return create(model="m", messages=messages or [USER], stream=True, **options)


def read_stream(client: OpenAI, *messages: Any, **options: Any) -> list[ChatCompletionChunk]:
    with open_stream(client, *messages, **options) as chunks:
        return list(chunks)


def texts_of(chunks: list[ChatCompletionChunk]) -> list[str]:
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
    chunks = read_stream(client)
    assert texts_of(chunks) == expected
    assert chunks[-1].choices[0].finish_reason == "stop"
    [record] = server.requests
    assert (record.status, record.completed, record.chunks_sent) == (200, True, len(expected))
    assert record.request.headers["authorization"] == "Bearer key"


def test_the_default_reply_echoes_the_user_message(client: OpenAI) -> None:
    assert "".join(texts_of(read_stream(client))) == "echo: grüß dich"


def test_tool_calls_are_streamed_in_interleaved_pieces(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(text="wait", tool_calls=[("add", {"a": 1, "b": 2}), ("find", "{no json")]))
    chunks = read_stream(client, tools=TOOLS)
    deltas = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
    assert [(d.index, d.function.name) for d in deltas if d.id and d.function] == [(0, "add"), (1, "find")]
    assert [d.index for d in deltas] == [0, 1] * 5
    joined = {n: "".join(d.function.arguments or "" for d in deltas if d.index == n and d.function) for n in (0, 1)}
    assert joined == {0: json.dumps({"a": 1, "b": 2}), 1: "{no json"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert [d.id for d in deltas[:2]] == [
        call.id for c in read_stream(client, tools=TOOLS)[2:4] for call in c.choices[0].delta.tool_calls or []
    ]


def test_usage_is_the_last_chunk_if_requested(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(text="one two three"))
    last = read_stream(client, stream_options={"include_usage": True})[-1]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    assert last.usage.prompt_tokens > 0
    assert not any(chunk.usage for chunk in read_stream(client))


def test_a_completion_without_streaming_has_calls_and_usage(server: ModelServer, client: OpenAI) -> None:
    server.script(lambda request: Reply(tool_calls=[("add", {"a": 1})], usage=(7, 5)))
    answer = client.chat.completions.create(model="m", messages=[USER])
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 1}')
    assert answer.usage is not None
    assert answer.usage.total_tokens == 12


def test_the_responder_receives_the_parsed_request(server: ModelServer, client: OpenAI) -> None:
    seen: list[Request] = []

    def respond(request: Request) -> Reply:
        seen.append(request)
        return Reply()

    server.script(respond)
    read_stream(client, SYSTEM, USER, assistant_calls("a", "b"), tool_message("b"), tool_message("a"), tools=TOOLS)
    [request] = seen
    assert (request.model, request.system, request.last_user) == ("m", "be short", "grüß dich")
    assert request.tools == ["add", "find"]
    assert request.tool_results == [("b", "result of b"), ("a", "result of a")]
    assert [request.count(role) for role in ("assistant", "tool", "user")] == [1, 2, 1]
    assert server.violations == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, assistant_calls("a")], "did not have response messages: a"),
        ([USER, assistant_calls("a", "b"), tool_message("a"), USER], "did not have response messages: b"),
        ([USER, assistant_calls("a"), USER, tool_message("a")], "did not have response messages: a"),
        ([USER, tool_message("a")], "must be a response to a preceeding message"),
        ([USER, assistant_calls("a"), tool_message("a"), tool_message("a")], "must be a response to a preceeding"),
        ([USER, assistant_calls("a", "a"), tool_message("a")], "Duplicate value for 'tool_call_id' of 'a'"),
        ([USER, assistant_calls("a", arguments="[1]"), tool_message("a")], "expected a string of a JSON object"),
        ([{"role": "robot", "content": "hi"}], "Invalid value: 'robot'"),
        ([{"role": "assistant"}], "expected a string, got null"),
    ],
)
def test_invalid_messages_are_refused(server: ModelServer, client: OpenAI, messages: list[Any], expected: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_stream(client, *messages)
    assert refused.value.type == "invalid_request_error"
    assert expected in str(refused.value)
    assert expected in server.violations[0]


def test_empty_messages_and_tools_are_refused(server: ModelServer, client: OpenAI) -> None:
    empty: list[dict[str, Any]] = [{"messages": []}, {"messages": [USER], "tools": []}]
    for given in empty:
        with pytest.raises(BadRequestError, match="empty array"):
            client.post("/chat/completions", body={"model": "m", **given}, cast_to=object)
    assert [violation.split(":")[0] for violation in server.take_violations()] == [
        "Invalid 'messages'",
        "Invalid 'tools'",
    ]
    assert server.violations == []


def test_fail_next_fails_the_next_requests(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(2, Reply(status=429, text="slow down", code="rate", headers={"Retry-After": "7"}))
    for _ in range(2):
        with pytest.raises(RateLimitError, match="slow down") as limited:
            read_stream(client)
        assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate", "7")
    assert texts_of(read_stream(client))
    assert [record.status for record in server.requests] == [429, 429, 200]


def test_an_exception_of_the_responder_is_a_violation(server: ModelServer, client: OpenAI) -> None:
    known: dict[str, str] = {}
    server.script(lambda request: Reply(text=known[request.model]))
    with pytest.raises(InternalServerError):
        read_stream(client)
    assert server.violations == ["the responder raised KeyError('m')"]


@pytest.mark.parametrize(("after", "received"), [(0, 0), (2, 2), (9, 3)])
def test_a_stream_breaks_after_the_given_chunks(server: ModelServer, client: OpenAI, after: int, received: int) -> None:
    server.fail_next(1, Reply(text="one two three", break_after=after))
    chunks: list[ChatCompletionChunk] = []
    with pytest.raises(APIConnectionError):
        chunks += open_stream(client)
    assert len(texts_of(chunks)) == received
    [record] = server.requests
    assert (record.chunks_sent, record.completed, record.client_disconnected_at) == (received, False, None)


def test_garbage_replaces_the_end_of_a_stream(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(1, Reply(text="one", garbage=b"data: {oops\n\n"))
    with pytest.raises(json.JSONDecodeError):
        read_stream(client)
    server.fail_next(1, Reply(garbage=b"<html>bad gateway</html>"))
    assert texts_of(read_stream(client)) == []


def all_disconnected(records: list[RequestRecord]) -> bool:
    return bool(records) and all(record.client_disconnected_at for record in records)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_silent_server_notices_that_the_client_disconnects(
    server: ModelServer, client: OpenAI, streamed: bool
) -> None:
    server.script(lambda request: Reply(text="never", hang_after=0))
    with pytest.raises(APITimeoutError):
        client.chat.completions.create(model="m", messages=[USER], stream=streamed, timeout=0.2)
    [record] = server.wait_for(all_disconnected)
    assert (record.chunks_sent, record.completed) == (0, False)


@pytest.mark.parametrize("reply", [Reply(text="a b", hang_after=1), Reply(text="a b", interval=3600)])
def test_a_closed_stream_is_noticed_immediately(server: ModelServer, client: OpenAI, reply: Reply) -> None:
    server.script(lambda request: reply)
    with open_stream(client) as chunks:
        assert texts_of([next(chunks), next(chunks)]) == ["a "]
        assert not all_disconnected(server.requests)
    [record] = server.wait_for(all_disconnected)
    assert (record.chunks_sent, record.completed) == (1, False)


def test_wait_for_lists_the_requests_when_it_times_out(server: ModelServer, client: OpenAI) -> None:
    read_stream(client)
    with pytest.raises(TimeoutError, match="completed=True"):
        server.wait_for(lambda records: len(records) > 1, timeout=0)


def test_fifty_streams_run_concurrently(server: ModelServer) -> None:
    def respond(request: Request) -> Reply:
        hang_after = 2 if request.model == "hang" else None
        return Reply(text=f"you said {request.last_user}", hang_after=hang_after)

    async def ask(client: AsyncOpenAI, model: str, n: int) -> str:
        chunks = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": str(n)}], stream=True
        )
        return "".join([c.choices[0].delta.content or "" async for c in chunks])

    async def run_streams() -> list[str]:
        """Return fifty complete answers while fifty other streams hang."""
        async with AsyncOpenAI(base_url=server.base_url, api_key="key") as client:
            hanging = [asyncio.create_task(ask(client, "hang", n)) for n in range(50)]
            await asyncio.to_thread(server.wait_for, lambda rs: sum(r.chunks_sent for r in rs) == 100)
            answers = await asyncio.gather(*(ask(client, "talk", n) for n in range(50)))
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            return answers

    server.script(respond)
    assert asyncio.run(run_streams()) == [f"you said {n}" for n in range(50)]
    records = server.wait_for(lambda rs: all_disconnected([r for r in rs if r.request.model == "hang"]))
    assert [r.completed for r in records] == [False] * 50 + [True] * 50


def test_models_are_listed_and_unknown_paths_refused(server: ModelServer, client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    with pytest.raises(NotFoundError, match="there is no GET /v1/files"):
        client.files.list()
    assert [record.request.path for record in server.requests] == ["/v1/models", "/v1/files"]


def test_a_stopped_server_restarts_at_the_same_address(server: ModelServer, client: OpenAI) -> None:
    server.fail_next(1, Reply(text="a b", hang_after=1))
    with open_stream(client) as chunks:
        assert texts_of([next(chunks), next(chunks)]) == ["a "]
        server.stop()
        with pytest.raises(APIConnectionError):
            next(chunks)
    with pytest.raises(APIConnectionError):
        read_stream(client)
    server.start()
    assert texts_of(read_stream(client))


def test_the_server_runs_as_a_process(any_client: OpenAI) -> None:
    command = [sys.executable, "-m", "tests.support.servers.model_server", "--port", "0", "--tokens", "4"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = any_client.with_options(base_url=process.stdout.readline().strip())
        assert texts_of(read_stream(client)) == ["token "] * 4
        process.terminate()
        assert process.wait(timeout=5) == 0
