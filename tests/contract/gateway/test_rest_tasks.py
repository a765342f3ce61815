"""Teams and tasks over HTTP: who may see and submit them, and what a repeated request does."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.domain.limits import LimitOverrides
from roboco.errors import TransientError
from roboco.gateway import teams
from roboco.gateway.rest import controls, endpoints
from roboco.gateway.rest.caching import etag_of
from tests.support.gateway_rest import CALLERS, DESK, KEY, RestWorld
from tests.support.memory_ports.model import says

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


def test_a_path_is_no_team(rest: RestWorld) -> None:
    for name in ("../desk.yaml", "desk.yaml", "/etc/passwd", ""):
        answer = create(rest, TASK | {"team": name})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_broken_team_is_reported_without_its_file(rest: RestWorld) -> None:
    folder = rest.orchestrator.settings.teams_dir
    assert folder is not None
    (folder / "broken.yaml").write_text("name: broken\nagents: secret text\n")
    answer = rest.get("/v1/teams/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "invalid_team")
    assert "secret" not in answer.text
    assert str(folder) not in answer.text
    assert [team["name"] for team in rest.get("/v1/teams").json()["teams"]] == ["desk", "lab"]


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


def test_a_repetition_finds_its_task_after_the_team_file_has_changed(rest: RestWorld) -> None:
    body = TASK | {"model": "good"}
    first = create(rest, body, "one")
    folder = rest.orchestrator.settings.teams_dir
    assert folder is not None
    path = folder / "desk.yaml"
    path.write_text(path.read_text().replace("writes notes", "writes letters"))
    again = create(rest, body, "one")
    assert (again.status_code, again.json()["task_id"]) == (200, first.json()["task_id"])


def test_a_team_object_needs_its_scope_and_names_no_server(rest: RestWorld) -> None:
    own = {"name": "own", "agents": [{"name": "a", "prompt": "p"}]}
    assert create(rest, TASK | {"team": own}, caller="plain").status_code == 403
    assert create(rest, TASK | {"team": own}).status_code == 201
    address: dict[str, Any] = {"base_url": "http://evil.example/v1"}
    for field in (address, {"api_key_env": "OPENAI_API_KEY"}, {"headers": {"X-Account": "ACCOUNT"}}):
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


def test_a_task_gets_the_budget_of_its_caller(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = LimitOverrides(max_steps=7)
    for module in (teams, controls):
        monkeypatch.setattr(module, "default_limits", lambda caller: budget)
    task_id = rest.run("acme:t")
    assert rest.orchestrator.task(task_id).team().limits.max_steps == 7
    fork = rest.post("/v1/tasks/t/fork", {"message": "again"}).json()["task_id"]
    assert rest.orchestrator.task(fork).team().limits.max_steps == 7
    assert rest.post(f"/v1/tasks/{fork}/limits", {"limits": {"max_steps": 8}}).status_code == 403
    assert rest.post(f"/v1/tasks/{fork}/limits", {"limits": {"max_steps": 6}}).status_code == 202


def test_a_conversation_continues_imported_messages(rest: RestWorld) -> None:
    """It waits for its user where it would end, and the next message continues the same history."""
    earlier = [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "hello", "agent": "writer"}]
    rest.run("acme:t", says("one"), conversation=True, history=earlier)
    assert rest.get("/v1/tasks/t/result?wait=1").json()["status"] == "user_turn"
    assert create(rest, TASK | {"task_id": "t", "conversation": True, "history": earlier}).status_code == 200
    assert create(rest, TASK | {"task_id": "t", "history": earlier}).status_code == 409
    rest.replies = [says("two")]
    assert rest.post("/v1/tasks/t/messages", {"message": "more"}).status_code == 202
    rest.world.settle("acme:t")
    messages = rest.get("/v1/tasks/t/session").json()["messages"]
    texts = [message["content"][0]["text"] for message in messages]
    assert texts == ["hi", "hello", "hello", "one", "more", "two"]
    wrong = create(rest, TASK | {"history": [{"role": "system", "text": "x"}]})
    assert (wrong.status_code, wrong.json()["mistakes"][0]["at"]) == (422, "body.history.0.role")


def test_lists_are_pages_with_conditions(rest: RestWorld) -> None:
    for number in range(3):
        rest.run(f"acme:t{number}", title=f"note {number}")
    rest.run("acme:w", says("I ship", ("ship", {})))
    page = rest.get("/v1/tasks?limit=3").json()
    rest_of_it = rest.get(f"/v1/tasks?limit=3&cursor={page['cursor']}").json()
    assert [one["task_id"] for one in page["tasks"] + rest_of_it["tasks"]] == [
        "acme:w",
        "acme:t2",
        "acme:t1",
        "acme:t0",
    ]
    assert rest_of_it["cursor"] == ""
    assert [one["task_id"] for one in rest.get("/v1/tasks?status=waiting").json()["tasks"]] == ["acme:w"]
    assert [one["task_id"] for one in rest.get("/v1/tasks?text=NOTE%201").json()["tasks"]] == ["acme:t1"]
    for query in ("status=nope", "cursor=x", "since=999999w", "since=soon", "limit=0", "statuses=ended"):
        assert rest.get(f"/v1/tasks?{query}").status_code in (400, 422), query
    assert rest.get("/v1/tasks?until=9999-12-31T23:59:59.999Z").status_code == 200


def test_details_have_an_entity_tag(rest: RestWorld) -> None:
    rest.run("acme:t")
    tag = rest.get("/v1/tasks/t").headers["etag"]
    unchanged = rest.client.get("/v1/tasks/t", headers={KEY: "acme", "If-None-Match": f'"x", W/{tag}'})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert rest.client.get("/v1/tasks/t", headers={KEY: "acme", "If-None-Match": '"x"'}).status_code == 200


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


def test_the_event_loop_digests_no_body(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.run("acme:t")
    threads = list[str]()

    def recorded(data: bytes) -> str:
        threads.append(threading.current_thread().name)
        return etag_of(data)

    monkeypatch.setattr(endpoints, "etag_of", recorded)
    for path in ("tasks", "tasks/t", "tasks/t/session", "tasks/t/history", "teams", "teams/desk"):
        assert rest.get(f"/v1/{path}").status_code == 200
    assert len(threads) == 6
    assert all(name.startswith(("roboco-gateway-read", "roboco-gateway-history")) for name in threads)


def test_a_mounted_gateway_returns_addresses_below_its_path(rest: RestWorld) -> None:
    shop = FastAPI()
    shop.mount("/roboco", rest.app)
    client = TestClient(shop, headers={KEY: "acme"})
    created = client.post("/roboco/v1/tasks", json=TASK | {"task_id": "t"})
    sent = client.post("/roboco/v1/tasks/t/messages", json={"message": "more"})
    stored = client.put("/roboco/v1/tasks/t/files/a.txt", content=b"text")
    for answer in (created, sent, stored):
        assert client.get(answer.headers["location"]).status_code == 200, answer.headers["location"]
