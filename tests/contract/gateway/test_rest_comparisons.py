"""The REST routes of comparisons: runs of a recorded task without effects, beside the task."""

from typing import Any

import pytest

from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from tests.support.gateway_rest import CALLERS, KEY, RestWorld
from tests.support.memory_ports.model import says


def ended_task(rest: RestWorld, tenant: str = "acme") -> str:
    """Return the id of an ended task of the team desk, as its tenant names it."""
    body = {"team": "desk", "prompt": "Write a note.", "task_id": "note"}
    task_id: str = rest.client.post("/v1/tasks", json=body, headers={KEY: tenant}).json()["task_id"]
    rest.world.settle(task_id)
    return task_id


def start(rest: RestWorld, task_id: str, body: dict[str, Any], caller: str = "local", **headers: str) -> Any:
    return rest.client.post(f"/v1/tasks/{task_id}/what-if", json=body, headers={KEY: caller, **headers})


def test_runs_are_started_once_for_a_key_and_compared(rest: RestWorld) -> None:
    task_id = ended_task(rest)
    first, again = (start(rest, task_id, {"model": "good", "runs": 2}, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert first.status_code == 202, first.text
    assert first.json() == again.json()
    what_if, runs = first.json()["what_if"], first.json()["runs"]
    assert runs == [f"{what_if}-1", f"{what_if}-2"]
    for run in runs:
        rest.world.settle(run)
    answer = rest.client.get(f"/v1/tasks/{task_id}/what-if/{what_if}", headers={KEY: "local"})
    report = answer.json()
    assert [row["status"] for row in report["runs"]] == ["completed"] * 2
    assert (report["task"]["task_id"], report["task"]["route"]) == (task_id, ["writer"])
    assert rest.world.given.model.requests[-1].profile.model == "large"
    unchanged = rest.client.get(
        f"/v1/tasks/{task_id}/what-if/{what_if}", headers={KEY: "local", "If-None-Match": answer.headers["etag"]}
    )
    assert unchanged.status_code == 304
    assert start(rest, task_id, {"runs": 1, "model": "quick"}, **{"Idempotency-Key": "k"}).status_code == 422
    for query, listed in (("?what_if=true", set(runs)), ("?what_if=false", {task_id}), ("", {task_id, *runs})):
        found = rest.client.get(f"/v1/tasks{query}", headers={KEY: "local"}).json()["tasks"]
        assert {task["task_id"] for task in found} == listed


def test_a_comparison_needs_the_scope_operate_and_a_task_of_the_caller(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = ended_task(rest)
    assert start(rest, task_id, {}, "acme").status_code == 403
    operator = Principal("key:o", "other", ALL_SCOPES)
    monkeypatch.setitem(CALLERS, "operator", operator)
    assert start(rest, task_id, {}, "operator").status_code == 404
    started = start(rest, task_id, {}).json()
    asked = rest.client.get(f"/v1/tasks/{task_id}/what-if/{started['what_if']}", headers={KEY: "operator"})
    assert asked.status_code == 404
    assert rest.client.get(f"/v1/tasks/{task_id}/what-if/0a", headers={KEY: "local"}).status_code == 404


def test_other_prompts_need_the_scope_teams(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = ended_task(rest)
    limited = Principal("key:l", "acme", frozenset({Scope.OPERATE}))
    monkeypatch.setitem(CALLERS, "limited", limited)
    assert start(rest, task_id, {"prompts": {"writer": "You sing."}}, "limited").status_code == 403
    rest.replies.append(says("la la"))
    started = start(rest, task_id, {"prompts": {"writer": "You sing."}})
    run = started.json()["runs"][0]
    rest.world.settle(run)
    assert "You sing." in str(rest.world.given.model.requests[-1].messages[0])
    assert start(rest, task_id, {"prompts": {"porter": "You sing."}}).status_code in (400, 422)
