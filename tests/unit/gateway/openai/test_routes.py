"""The routes of OpenAI's API without servers: errors have OpenAI's shape, whatever is wrong with a request."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from roboco import Orchestrator, Settings
from roboco.gateway.app import create_app
from roboco.gateway.settings import GatewaySettings

USER = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("gateway")
    settings = Settings(redis_url="redis://127.0.0.1:1", workspace=f"file://{folder}", teams_dir=folder)
    app = create_app(Orchestrator(settings), GatewaySettings(authentication=False))
    with TestClient(app, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/chat/completions", {"messages": USER}, "model"),
        ("/chat/completions", {"model": "desk", "messages": []}, "messages"),
        ("/chat/completions", {"model": "desk", "messages": USER, "n": 3}, "n"),
        ("/chat/completions", {"model": "desk", "messages": USER, "\ud800": 3}, "body"),
        ("/chat/completions", {"model": "desk", "messages": USER, "roboco": {"tenant": "a"}}, "roboco.tenant"),
        ("/responses", {"model": "desk", "input": "a", "store": False}, "store"),
        ("/responses", {"model": "desk", "input": "a", "include": ["message.output_text.logprobs"]}, "include"),
        ("/responses", {"model": "desk", "input": "a", "previous_response_id": "resp_a_0", "conversation": "b"}, None),
        ("/conversations", {"items": [{"role": "user"}]}, "items.0"),
        ("/conversations", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items.0"),
        ("/conversations", {"metadata": {"a": "b" * 513}}, "metadata.a"),
    ],
)
def test_wrong_requests_name_their_parameter(client: TestClient, path: str, body: Any, param: str | None) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/openai/v1{path}", content=json.dumps(body), headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == (param or "previous_response_id")
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/openai/v1/embeddings", "the routes of OpenAI's API at this gateway are models, responses"),
        ("/openai/chat/completions", "ends with /openai/v1: change it in the client"),
        ("/v1/chat/completions", "ends with /openai/v1"),
        ("/conversations/conv_1/items", "ends with /openai/v1"),
    ],
)
def test_an_unknown_route_names_those_that_exist_or_the_base_url(client: TestClient, path: str, remedy: str) -> None:
    answer = client.post(path, json={})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (404, "false")
    assert remedy in answer.json()["error"]["message"]
    assert client.post("/v1/nothing", json={}).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b'{"model": "desk", ', "application/json", 400, "is not JSON: .* at character 18"),
        (b'{"model": "desk"}', None, 400, "Content-Type: application/json"),
        (b"[]", "application/json", 400, "valid dictionary"),
        (b'{"model": "%s", "messages": [{}]}' % (b"x" * 90), "application/json", 404, "no team 'x+'"),
    ],
)
def test_a_body_that_cannot_be_read_says_what_to_change(
    client: TestClient, content: bytes, kind: str | None, status: int, message: str
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post("/openai/v1/chat/completions", content=content, headers=headers)
    assert answer.status_code == status
    assert re.search(message, answer.json()["error"]["message"])


def test_a_refused_method_and_a_refused_page_have_the_shape_of_the_api(client: TestClient) -> None:
    method = client.put("/openai/v1/responses", json={})
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")
    page = client.get("/openai/v1/models", headers={"origin": "https://shop.example", "sec-fetch-site": "cross-site"})
    assert (page.status_code, "ROBOCO_GATEWAY_CORS_ORIGINS" in page.json()["error"]["message"]) == (403, True)
