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
        ("/responses", {"model": "desk", "input": "a", "store": False}, "store"),
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
