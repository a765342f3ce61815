"""The routes of OpenAI's API without servers: errors have OpenAI's shape, whatever is wrong with a request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from roboco import Orchestrator, Settings
from roboco.gateway.app import create_app
from roboco.gateway.settings import GatewaySettings

USER = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(redis_url="redis://127.0.0.1:1", workspace=f"file://{tmp_path}", teams_dir=tmp_path)
    app = create_app(Orchestrator(settings), GatewaySettings(authentication=False))
    with TestClient(app, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/chat/completions", {"messages": USER}, "model"),
        ("/chat/completions", {"model": "desk"}, "messages"),
        ("/chat/completions", {"model": "desk", "messages": []}, "messages"),
        ("/chat/completions", {"model": "desk", "messages": USER, "n": 3}, "n"),
        ("/chat/completions", {"model": "desk", "messages": USER, "\ud800": 3}, "body"),
        ("/chat/completions", {"model": "desk", "messages": USER, "roboco": {"tenant": "a"}}, "roboco.tenant"),
        ("/chat/completions", {"model": "desk", "messages": USER, "roboco": {"priority": "high"}}, "roboco.priority"),
        ("/responses", {"model": "desk", "input": ""}, "input"),
        ("/responses", {"model": "desk", "input": "a", "max_output_tokens": 5}, "max_output_tokens"),
        ("/responses", {"model": "desk", "input": "a", "include": ["message.output_text.logprobs"]}, "include"),
        ("/responses", {"model": "desk", "input": "a", "tools": [{"type": "web_search"}]}, "tools.0.type"),
        ("/responses", {"model": "desk", "input": "a", "previous_response_id": "resp_a_0", "conversation": "b"}, None),
        ("/conversations", {"items": [{"role": "user"}]}, "items"),
    ],
)
def test_wrong_requests_name_their_parameter(client: TestClient, path: str, body: Any, param: str | None) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/openai/v1{path}", content=json.dumps(body), headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == (param or "previous_response_id")
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("body", ["{", "[]", "null", '"a"', "\xff"])
def test_bodies_that_are_no_objects_are_refused(client: TestClient, body: str) -> None:
    for path in ("/chat/completions", "/responses"):
        answer = client.post(f"/openai/v1{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


def test_a_team_or_id_that_does_not_exist_is_not_found(client: TestClient) -> None:
    for model in ("none", "../desk", "/etc/passwd", "desk.json"):
        answer = client.post("/openai/v1/chat/completions", json={"model": model, "messages": USER})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    for path in ("/responses/x", "/responses/resp_a", "/responses/resp_a_x", "/conversations/a b", "/models/x"):
        answer = client.get(f"/openai/v1{path}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


def test_a_server_that_does_not_answer_is_a_request_to_repeat(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "desk.json").write_text('{"name": "desk", "agents": [{"name": "one", "prompt": "one"}]}')
    answer = client.post("/openai/v1/responses", json={"model": "desk", "input": "hi"})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
    assert int(answer.headers["Retry-After"]) >= 1


def test_without_a_key_requests_are_refused(tmp_path: Path) -> None:
    settings = Settings(redis_url="redis://127.0.0.1:1", workspace=f"file://{tmp_path}")
    with TestClient(create_app(Orchestrator(settings), GatewaySettings()), base_url="http://127.0.0.1") as client:
        for method, path in (("GET", "/models"), ("POST", "/responses"), ("POST", "/chat/completions")):
            answer = client.request(method, f"/openai/v1{path}", json={"model": "desk", "input": "a", "messages": USER})
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_the_routes_are_described(client: TestClient) -> None:
    paths = client.get("/v1/openapi.json").json()["paths"]
    assert {path for path in paths if path.startswith("/openai/v1/responses")} == {
        "/openai/v1/responses",
        "/openai/v1/responses/{response_id}",
        "/openai/v1/responses/{response_id}/cancel",
        "/openai/v1/responses/{response_id}/input_items",
    }
