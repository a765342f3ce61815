"""A session of roboto.ai's API is reached by its tenant's keys, with the scope and team that a request needs."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco import Orchestrator, Settings
from roboco.gateway import GatewaySettings, create_app
from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from roboco.gateway.roboto import answers
from roboco.local.valkey import ValkeyServer
from tests.support.gateway_callers import choose_callers

pytestmark = pytest.mark.redis

JSON = "application/json"
TEAM = """
name: NAME
models: {standard: {model: scripted, default: true}}
agents: [{name: helper, prompt: help}]
collaboration_model: {type: sequential}
"""
MESSAGE = {"role": "user", "content": [{"text": "go"}]}
START = {"messages": [MESSAGE]}
ACME = Principal("key:acme", "acme", ALL_SCOPES)
OTHER = Principal("key:other", "other", ALL_SCOPES)
ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("GET", "/delta", None),
    ("GET", "/delta?next_token=.0.0.0.0.0.0", None),
    ("POST", "/messages", {"message": MESSAGE}),
    ("POST", "/tool-results", {"tool_results": [{"tool_use_id": "tc_1", "status": "success"}]}),
    ("POST", "/fork", {"message_sequence_num": 0}),
    ("POST", "/messages/0/feedback", {"sentiment": "positive"}),
]


class Api:
    """The application, asked by one caller after the other."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._client = TestClient(app)

    def ask(self, caller: Principal, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        choose_callers(self._app, lambda _: caller)
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, path, content=content, headers=headers | {"Content-Type": JSON})
        return answer.status_code, answer.json()

    def start(self, caller: Principal, **headers: str) -> str:
        status, body = self.ask(caller, "POST", "/v1/ai/chats", START, **headers)
        assert status == 200, body
        return str(body["data"]["session_id"])


@pytest.fixture(scope="module")
def api(valkey: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Yield the application over a real Redis and a folder, without workers."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    (folder / "teams").mkdir()
    for name in ("chat", "secret"):
        (folder / "teams" / f"{name}.yaml").write_text(TEAM.replace("NAME", name))
    (folder / "teams" / "broken.yaml").write_text("name: broken")
    settings = Settings(
        redis_url=valkey.url, workspace=f"file://{folder}/workspace", teams_dir=folder / "teams", prefix="roboto_access"
    )
    with Orchestrator(settings) as client, pytest.MonkeyPatch.context() as patched:
        patched.setattr(answers, "POLL_SECONDS", 0.2)
        app = create_app(client, GatewaySettings(roboto_team="chat"))
        yield Api(app)
        app.state.gateway.calls.close()


def test_another_tenants_session_is_an_unknown_one(api: Api) -> None:
    session_id = api.start(ACME)
    names = product(("chats", "threads"), ROUTES, (session_id, session_id.removeprefix("acme:")))
    for name, (method, path, body), known in names:
        status, answer = api.ask(OTHER, method, f"/v1/ai/{name}/{known}{path}", body)
        unknown = api.ask(OTHER, method, f"/v1/ai/{name}/{known[:-1]}x{path}", body)
        shown = answer["error"]["message"].replace(known, "ID")
        assert (status, shown) == (unknown[0], unknown[1]["error"]["message"].replace(f"{known[:-1]}x", "ID"))
        assert (status, answer["error"]["error_code"]) == (404, "RobotoNotFoundException")


def test_a_key_without_the_scope_is_refused(api: Api) -> None:
    session_id = api.start(ACME)
    weak = Principal("key:weak", "acme", frozenset({Scope.SUBMIT}))
    for method, path, body in ROUTES:
        status, answer = api.ask(weak, method, f"/v1/ai/chats/{session_id}{path}", body)
        assert (status, answer["error"]["error_code"]) == (401, "RobotoUnauthorizedException"), path
    assert api.ask(Principal("key:r", "acme", frozenset({Scope.READ})), "POST", "/v1/ai/chats", START)[0] == 401


def test_a_team_with_mistakes_hides_no_other_and_shows_no_path(api: Api) -> None:
    assert [one["name"] for one in api.ask(ACME, "GET", "/v1/ai/agents")[1]["data"]["items"]] == ["chat", "secret"]
    status, answer = api.ask(ACME, "GET", "/v1/ai/agents/broken")
    assert (status, "/" in answer["error"]["message"]) == (500, False)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/ai/chats/search", 404),
        ("DELETE", "/v1/ai/chats/x", 404),
        ("POST", "/v1/ai/threads/x/pin", 404),
        ("POST", "/v1/ai/agents", 400),
        ("PUT", "/v1/ai/agents/chat", 400),
        ("GET", "/v1/ai/chats/x/delta?next_token=wrong", 400),
        ("GET", "/v1/ai/chats/x?load_messages=perhaps", 400),
        ("GET", "/v1/ai/chats/..%2f..%2fetc", 404),
    ],
)
def test_each_refusal_has_robotos_form(api: Api, method: str, path: str, status: int) -> None:
    answer = api.ask(ACME, method, path)
    assert (answer[0], set(answer[1]), set(answer[1]["error"])) == (status, {"error"}, {"error_code", "message"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "assistant", "content": [{"text": "a"}]}]},
        {"messages": [{"role": "roboto", "content": [{"text": "a"}]}]},
        {"messages": [MESSAGE], "invoke_skills": [{"skill_id": "s"}]},
        {"messages": [MESSAGE], "available_skills": [{"skill_id": "s"}]},
        {"messages": [MESSAGE], "system_prompt": "like a pirate"},
        {"messages": [MESSAGE], "model_profile": "large"},
        {"messages": [{"role": "user", "content": []}]},
        {"messages": [MESSAGE], "client_tools": [{"name": "shell", "description": "d", "input_schema": {}}]},
    ],
)
def test_a_session_that_cannot_be_as_requested_is_refused(api: Api, body: Any) -> None:
    status, answer = api.ask(ACME, "POST", "/v1/ai/chats", body)
    assert (status, answer["error"]["error_code"]) == (400, "RobotoInvalidRequestException")


@pytest.mark.parametrize(
    "token",
    [
        ".0.0.999999999999999.0.0.0",
        "ffff.9.9.0.9.999999999999.ffffffff",
        "ab.999999999999999.999999999999999.1.1.5.0",
        ".0.0.0.0.0.0",
    ],
)
def test_a_forged_token_is_answered(api: Api, token: str) -> None:
    session_id = api.start(ACME)
    status, body = api.ask(ACME, "GET", f"/v1/ai/chats/{session_id}/delta?next_token={token}")
    assert (status, body["data"]["status"]) == (200, "roboto_turn")
