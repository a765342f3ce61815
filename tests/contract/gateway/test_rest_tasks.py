"""Teams and tasks over HTTP: who may see and submit them, and what a repeated request does."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.errors import TransientError
from tests.support.gateway_rest import CALLERS, DESK, KEY, RestWorld

TASK = {"team": "desk", "prompt": "hello"}


def create(rest: RestWorld, body: dict[str, Any], key: str | None = None, caller: str = "acme") -> Any:
    """Return the response to a submission."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return rest.client.post("/v1/tasks", json=body, headers={KEY: caller, **headers})


def test_teams_are_shown_without_prompts_tools_and_variables(rest: RestWorld) -> None:
    answer = rest.get("/v1/teams")
    assert [team["name"] for team in answer.json()["teams"]] == ["desk", "lab"]
    assert not any(secret in answer.text for secret in ("You write", "Secret recipe", "SECRET_KEY", "shop.tools"))
    [desk, _] = answer.json()["teams"]
    assert rest.get("/v1/teams/desk").json() == desk
    assert [profile["id"] for profile in desk["models"]] == ["good", "quick"]
    assert desk["context_schema"]["properties"] == {"customer": {"type": "object", "properties": {"name": {}}}}


def test_a_key_of_one_team_reaches_that_team_and_its_tasks_alone(rest: RestWorld) -> None:
    rest.run("acme:d", caller="acme")
    rest.run("acme:l", caller="acme", team="lab")
    assert [team["name"] for team in rest.get("/v1/teams", caller="desk").json()["teams"]] == ["desk"]
    assert rest.get("/v1/teams/lab", caller="desk").text == rest.get("/v1/teams/nope", caller="desk").text.replace(
        "nope", "lab"
    )
    assert [one["task_id"] for one in rest.get("/v1/tasks", caller="desk").json()["tasks"]] == ["acme:d"]
    assert rest.get("/v1/tasks?team=lab", caller="desk").json()["tasks"] == []
    assert rest.get("/v1/tasks/l", caller="desk").text == rest.get("/v1/tasks/x", caller="desk").text.replace("x", "l")
    assert create(rest, TASK | {"team": "lab"}, caller="desk").status_code == 404
    assert create(rest, TASK | {"team": DESK}, caller="desk").status_code == 403
    upload = rest.client.put("/v1/tasks/l/files/a", content=b"x", headers={KEY: "desk"})
    assert upload.status_code == 404


def test_a_caller_without_teams_sees_no_task(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.run("acme:d", caller="acme")
    monkeypatch.setitem(CALLERS, "teamless", replace(CALLERS["desk"], teams=frozenset()))
    for query in ("", "?team=desk"):
        assert rest.get(f"/v1/tasks{query}", caller="teamless").json()["tasks"] == []


def test_a_path_is_no_team(rest: RestWorld) -> None:
    for name in ("../desk.yaml", "desk.yaml", "/etc/passwd", ""):
        answer = create(rest, TASK | {"team": name})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_the_same_key_is_the_same_task(rest: RestWorld) -> None:
    first, again = create(rest, TASK, "one"), create(rest, TASK, "one")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() | {"created": False} == again.json()
    assert first.headers["location"] == again.headers["location"] == f"/v1/tasks/{first.json()['task_id']}"
    assert rest.get(first.headers["location"]).status_code == 200
    other = create(rest, TASK | {"prompt": "other"}, "one")
    assert (other.status_code, other.json()["code"]) == (422, "conflict")
    assert create(rest, TASK, "two").json()["task_id"] != first.json()["task_id"]


def test_the_same_task_id_with_other_content_is_a_conflict(rest: RestWorld) -> None:
    assert create(rest, TASK | {"task_id": "t"}).status_code == 201
    assert create(rest, TASK | {"task_id": "t"}).status_code == 200
    other = create(rest, TASK | {"task_id": "t", "prompt": "other"})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert create(rest, TASK | {"task_id": "t"}, "key").status_code == 400


def test_a_team_object_needs_its_scope_and_names_no_server(rest: RestWorld) -> None:
    own = {"name": "own", "agents": [{"name": "a", "prompt": "p"}]}
    assert create(rest, TASK | {"team": own}, caller="plain").status_code == 403
    assert create(rest, TASK | {"team": own}).status_code == 201
    address: dict[str, Any] = {"base_url": "http://evil.example/v1"}
    key = {"api_key": {"credential": "crm"}}
    for field in (address, key, {"api_key_env": "OPENAI_API_KEY"}, {"headers": {"X-Account": "ACCOUNT"}}):
        models = {"m": {"model": "x", **field}}
        for team in (own | {"models": models}, own | {"teams": {"helper": own | {"models": models}}}):
            assert create(rest, TASK | {"team": team}).status_code == 403, team
    assert create(rest, TASK | {"team": own | {"models": {"m": {"model": "x", "base_url": "http://a.example"}}}},
                  caller="local").status_code == 201  # fmt: skip


def test_a_team_object_names_only_the_functions_of_its_key(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLERS, "acme", replace(CALLERS["acme"], functions=frozenset({"shop.tools:ship"})))
    own = {"name": "own", "agents": [{"name": "a", "prompt": "p"}]}
    allowed, other = ({"name": name, "function": f"shop.tools:{name}"} for name in ("ship", "refund"))
    assert create(rest, TASK | {"team": own | {"tools": [allowed]}}).status_code == 201
    router = {"collaboration_model": {"type": "custom", "router": "shop.tools:refund"}}
    for team in ({"tools": [allowed, other]}, router, {"teams": {"helper": own | {"tools": [other]}}}):
        answer = create(rest, TASK | {"team": own | team})
        assert (answer.status_code, "shop.tools:refund" in answer.text) == (403, True), team


@pytest.mark.parametrize(
    "option",
    [{"priority": "high"}, {"notify": [{"webhook": "https://a.example/", "secret_env": "HOOK_SECRET"}]}],
)
def test_options_with_effects_on_others_need_their_scope(rest: RestWorld, option: dict[str, Any]) -> None:
    assert create(rest, TASK | option, caller="plain").status_code == 403
    assert create(rest, TASK | option).status_code == 201


def test_files_of_the_server_cannot_be_named(rest: RestWorld) -> None:
    answer = create(rest, TASK | {"files": ["/etc/passwd"]})
    assert (answer.status_code, answer.json()["mistakes"][0]["at"]) == (422, "body.files")


def test_unknown_routes_methods_and_bodies_are_problems(rest: RestWorld) -> None:
    json_headers = {KEY: "acme", "Content-Type": "application/json"}
    bodies = [(b"{", 422), (b"\xff", 400), (b"[" * 40_000, 400), (b'{"\\ud800": 1}', 422), (b"1" * 5000, 400)]
    answers = [
        (rest.get("/v1/nope"), 404),
        (rest.client.delete("/v1/tasks", headers={KEY: "acme"}), 405),
        (rest.client.post("/v1/tasks", content=b"x", headers={KEY: "acme"}), 422),
        *((rest.client.post("/v1/tasks", content=body, headers=json_headers), status) for body, status in bodies),
    ]
    for answer, status in answers:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail", "code", "remedy"} <= answer.json().keys()


def test_a_silent_server_is_503_without_its_address(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TransientError("the S3 store at http://10.0.0.7:9000 does not answer")

    rest.run("acme:t")
    monkeypatch.setattr(rest.world.files, "get", fail)
    answer = rest.get("/v1/tasks/t")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert "10.0.0.7" not in answer.text


def test_an_unexpected_error_is_a_problem_without_its_text(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    rest.run("acme:t")
    monkeypatch.setattr(rest.world.files, "get", fail)
    answer = rest.get("/v1/tasks/t")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
