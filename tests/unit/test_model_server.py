"""The scripted model server, called by the OpenAI client."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import (
    APIConnectionError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    Stream,
)
from openai.types.chat import ChatCompletionChunk

from tests.support.servers.model_server import ModelServer, Reply, Request

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


def test_the_default_reply_echoes_the_user_message(client: OpenAI) -> None:
    assert "".join(texts_of(read_stream(client))) == "echo: grüß dich"


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


def test_an_exception_of_the_responder_is_a_violation(server: ModelServer, client: OpenAI) -> None:
    known: dict[str, str] = {}
    server.script(lambda request: Reply(text=known[request.model]))
    with pytest.raises(InternalServerError):
        read_stream(client)
    assert server.violations == ["the responder raised KeyError('m')"]


def test_wait_for_lists_the_requests_when_it_times_out(server: ModelServer, client: OpenAI) -> None:
    read_stream(client)
    with pytest.raises(TimeoutError, match="completed=True"):
        server.wait_for(lambda records: len(records) > 1, timeout=0)


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
