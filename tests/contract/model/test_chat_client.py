"""Chat client: requests with a kept head are those of the openai package, and so are their errors."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from roboco.adapters.model.chat_client import ChatClient
from roboco.adapters.model.openai_model import OpenAIModel
from tests.contract.model.model_calls import IGNORE_ABANDONED_GENERATORS, make_request, read_failure, read_reply
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = IGNORE_ABANDONED_GENERATORS


def sent_directly(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets an item for each request without the package."""
    sent: list[bool] = []
    original: Any = ChatClient._post_directly

    async def post(self: ChatClient, *arguments: Any) -> Any:
        sent.append(True)
        return await original(self, *arguments)

    monkeypatch.setattr(ChatClient, "_post_directly", post)
    return sent


def test_the_third_request_has_the_heads_of_the_packages(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, model = sent_directly(monkeypatch), models()
    replies = [read_reply(model.stream(make_request("a ü 漢"))) for _ in range(4)]
    assert len({text for text, _ in replies}) == 1
    assert len(sent) == 2
    first, *others = [record.request for record in server.requests]
    assert [request.headers for request in others] == [first.headers] * 3
    assert [request.body for request in others] == [first.body] * 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503])
def test_an_error_of_a_later_request_is_the_packages(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    sent, model = sent_directly(monkeypatch), models(max_attempts=1)
    wrong = Reply(status=status, text="maximum context length", headers={"retry-after": "7"})
    server.script(lambda request: wrong if "fail" in str(request.body) else Reply(text="fine"))
    _, of_package = read_failure(model.stream(make_request("fail")))
    for _ in range(2):
        read_reply(model.stream(make_request()))
    assert sent == []
    _, direct = read_failure(model.stream(make_request("fail")))
    assert sent == [True]
    assert vars(direct) == vars(of_package)
    assert repr(direct.__cause__) == repr(of_package.__cause__)
    assert read_reply(model.stream(make_request()))[0] == "fine"


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_only_the_beginning_of_a_later_error_is_read_and_not_decompressed(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    sent, model = sent_directly(monkeypatch), models(max_attempts=1)
    long = Reply(status=400, text="beginning" + "x" * 1_000_000, headers=headers)
    server.script(lambda request: long if "fail" in str(request.body) else Reply(text="fine"))
    for _ in range(2):
        read_reply(model.stream(make_request()))
    _, error = read_failure(model.stream(make_request("fail")))
    assert sent == [True]
    assert "beginning" in error.message
    assert '{"error"' in error.message, "the client reads the body to its end"


def test_closing_the_stream_of_a_later_request_closes_its_connection(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, model = sent_directly(monkeypatch), models()
    server.script(lambda request: Reply(chunks=["one ", "two "], hang_after=2 if "hang" in str(request.body) else None))
    for _ in range(2):
        read_reply(model.stream(make_request()))
    stream = model.stream(make_request("hang"))
    assert str(next(iter(stream))).startswith("one ")
    stream.close()
    assert stream.wait_closed(60)
    assert sent == [True]
    server.wait_for(lambda records: records[-1].client_disconnected_at is not None)


def test_a_later_request_that_is_redirected_is_sent_again_by_the_package(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, model = sent_directly(monkeypatch), models()
    moved = Reply(status=307, headers={"Location": "/moved/v1/chat/completions"})
    server.script(
        lambda request: moved if "move" in str(request.body) and request.path[:6] != "/moved" else Reply("ok")
    )
    for _ in range(2):
        read_reply(model.stream(make_request()))
    for _ in range(2):
        assert read_reply(model.stream(make_request("move")))[0] == "ok"
    assert read_reply(model.stream(make_request()))[0] == "ok"
    assert len(sent) == 1, "each later request is sent once"
    here, moved_to = "/v1/chat/completions", "/moved/v1/chat/completions"
    paths = [record.request.path for record in server.requests]
    assert paths == [here, here, here, here, moved_to, here, moved_to, here]


def test_requests_through_a_proxy_are_all_sent_by_the_package(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, model = sent_directly(monkeypatch), models()
    monkeypatch.setenv("HTTP_PROXY", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.invalid/v1")
    for _ in range(3):
        read_reply(model.stream(make_request()))
    assert sent == []
    assert [record.request.path for record in server.requests] == ["http://model.invalid/v1/chat/completions"] * 3


def test_a_later_request_that_finds_no_server_is_a_connection_error(models: Callable[..., OpenAIModel]) -> None:
    with ModelServer() as server:
        model = models(max_attempts=1, allowed=(server.base_url,))
        request = make_request(base_url=server.base_url)
        for _ in range(2):
            read_reply(model.stream(request))
    _, error = read_failure(model.stream(request))
    assert (error.code, error.retryable) == ("connection", True)


def test_a_header_that_changes_with_each_request_is_not_kept(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, model = sent_directly(monkeypatch), models()
    read_reply(model.stream(make_request()))
    [client] = model._clients.values()
    keys = iter(range(100))

    async def add_key(request: Any) -> None:
        request.headers["idempotency-key"] = str(next(keys))

    client._openai._prepare_request = add_key
    for _ in range(4):
        read_reply(model.stream(make_request()))
    assert sent == []
    assert [record.request.headers.get("idempotency-key") for record in server.requests] == [None, "0", "1", "2", "3"]


def test_a_redirected_request_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ChatClient("key", "http://127.0.0.1:1/v1")

    class Redirected:
        history = ("moved",)

    client._note_request(Redirected())  # type: ignore[arg-type]
    assert client._last is None
    asyncio.run(client.close())
