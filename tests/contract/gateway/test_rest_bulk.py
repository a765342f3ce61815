"""Bulk controls over HTTP."""

import json
import logging
from typing import Any

import pytest

from roboco.client.operator import bulk as bulk_module
from roboco.client.operator.bulk_sender import bulk_item_id
from roboco.domain.access_key import CallerLimits
from roboco.domain.paths import summary_path
from roboco.errors import ModelError, TransientError
from roboco.gateway.limits import CallerLimiter
from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from roboco.gateway.problem import rate_limited
from tests.support.gateway_rest import CALLERS, KEY, RestWorld
from tests.support.memory_ports.model import ScriptedReply, says

PATH = "/v1/operations/bulk"
OPERATOR = {Scope.OPERATE, Scope.CONTROL, Scope.READ}


@pytest.fixture(autouse=True)
def _tasks(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLERS, "acme-ops", Principal("key:ops", "acme", frozenset(OPERATOR)))
    desk = Principal("key:deskops", None, frozenset(OPERATOR), frozenset({"desk"}))
    monkeypatch.setitem(CALLERS, "desk-ops", desk)
    for name in ("acme:a", "acme:b", "acme:c", "other:x"):
        rest.post("/v1/tasks", {"team": "desk", "prompt": "work", "task_id": name}, name.partition(":")[0])
    rest.post("/v1/tasks", {"team": "lab", "prompt": "work", "task_id": "lab"}, "local")


def send(rest: RestWorld, body: dict[str, Any], caller: str = "local", status: int = 200, key: str = "") -> Any:
    """Return the JSON of a bulk control."""
    headers = {KEY: caller} | ({"Idempotency-Key": key} if key else {})
    answer = rest.client.post(PATH, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def items(rest: RestWorld) -> list[str]:
    """Return the ids of the tasks that hold the item of a bulk control, one for each item."""
    return sorted(path.partition("/")[0] for path in rest.world.files.held if "/b_" in path)


def test_each_request_controls_one_page_and_each_task_once(rest: RestWorld) -> None:
    body = {"control": "stop", "tenant": "acme", "limit": 2, "reason": "wrong prompt"}
    first = send(rest, body)
    assert first["counts"] == {"accepted": 2, "repeated": 0, "ended": 0, "failed": 0}
    second = send(rest, body | {"cursor": first["cursor"]})
    repeated = send(rest, body | {"cursor": first["cursor"]})
    assert (second["counts"]["accepted"], repeated["counts"]["repeated"]) == (1, 1)
    assert items(rest) == ["acme:a", "acme:b", "acme:c"]
    assert second["cursor"] == ""
    rest.world.settle("acme:a")
    assert rest.get("/v1/tasks/a").json()["reason"] == "wrong prompt"


def test_the_history_and_the_audit_log_name_the_caller_for_each_task(
    rest: RestWorld, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "roboco.audit"):
        done = send(rest, {"control": "pause", "tenant": "acme"}, "acme-ops")
    receipt = rest.get(f"/v1/tasks/a/receipts/{bulk_item_id(done['bulk_id'], 'acme:a')}").json()
    assert receipt["by"] == "key:ops"
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    of_tasks = {line["task"]: line for line in lines if line["action"] == "bulk_pause"}
    assert sorted(of_tasks) == ["acme:a", "acme:b", "acme:c"]
    assert {(line["by"], line["tenant"], line["outcome"]) for line in of_tasks.values()} == {
        ("key:ops", "acme", "accepted")
    }
    assert [line["action"] for line in lines if line["action"] not in ("bulk_pause",)] == ["control_tasks"]
    assert len({line["request"] for line in lines}) == 1


def test_the_audit_log_has_the_tasks_of_a_page_that_was_not_completed(
    rest: RestWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(task_id: str, found: Any = rest.orchestrator.task) -> Any:
        if task_id == "acme:a":
            raise TransientError("the store is silent")
        return found(task_id)

    monkeypatch.setattr(bulk_module, "PARALLEL", 1)
    monkeypatch.setattr(rest.orchestrator, "task", find)
    with caplog.at_level(logging.INFO, "roboco.audit"):
        send(rest, {"control": "stop", "tenant": "acme"}, "acme-ops", status=503)
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    stopped = [(line["task"], line["by"], line["outcome"]) for line in lines if line["action"] == "bulk_stop"]
    assert sorted(stopped) == [(f"acme:{name}", "key:ops", "failed" if name == "a" else "accepted") for name in "abc"]


def test_the_same_key_is_the_same_bulk_control(rest: RestWorld) -> None:
    body = {"control": "stop", "tenant": "acme"}
    first = send(rest, body, key="night")
    again = send(rest, body, key="night")
    assert first["bulk_id"] == again["bulk_id"]
    assert (first["counts"]["accepted"], again["counts"]["repeated"]) == (3, 3)
    other = send(rest, body | {"reason": "another"}, key="night")
    assert {one["code"] for one in other["outcomes"]} == {"conflict"}
    assert send(rest, body | {"bulk_id": "b"}, status=400, key="night")["code"] == "invalid"


def test_a_tenant_and_a_key_of_some_teams_reach_their_tasks_alone(rest: RestWorld) -> None:
    assert send(rest, {"control": "stop", "tenant": "other"}, "acme-ops", 403)["code"] == "forbidden"
    assert send(rest, {"control": "stop", "team": ["lab"]}, "desk-ops")["outcomes"] == []
    assert items(rest) == []
    found = send(rest, {"control": "stop", "all_tasks": True}, "acme-ops")
    assert sorted(one["task_id"] for one in found["outcomes"]) == items(rest) == ["acme:a", "acme:b", "acme:c"]
    found = send(rest, {"control": "pause", "all_tasks": True}, "desk-ops")
    assert "lab" not in [one["task_id"] for one in found["outcomes"]]
    assert "other:x" in items(rest)


@pytest.mark.parametrize("caller", ["acme", "plain", "none"])
def test_the_scope_operate_is_needed(rest: RestWorld, caller: str) -> None:
    assert send(rest, {"control": "stop", "tenant": "acme"}, caller, 403)["code"] == "forbidden"
    assert items(rest) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"control": "stop"}, 400),
        ({"control": "stop", "text": "", "status": []}, 400),
        ({"control": "erase", "tenant": "acme"}, 422),
        ({"control": "stop", "tenant": "acme", "limit": 101}, 422),
        ({"control": "stop", "tenant": "acme", "older": "2h"}, 422),
        ({"control": "stop", "tenant": "acme", "status": ["ended"]}, 400),
        ({"control": "stop", "tenant": "acme", "cursor": "x"}, 400),
        ({"control": "stop", "tenant": "acme", "since": "yesterday"}, 400),
        ({"control": "limits", "tenant": "acme"}, 400),
        ({"control": "limits", "tenant": "acme", "limits": {"max_steps": -1}}, 422),
        ({"control": "pause", "tenant": "acme", "reason": "why"}, 400),
    ],
)
def test_a_request_that_is_wrong_controls_nothing(rest: RestWorld, body: dict[str, Any], status: int) -> None:
    send(rest, body, status=status)
    assert items(rest) == []


def test_a_dry_run_counts_and_controls_nothing(rest: RestWorld) -> None:
    found = send(rest, {"control": "stop", "tenant": "acme", "dry_run": True})
    assert (found["matching"], found["outcomes"], items(rest)) == (3, [], [])


def test_a_broken_task_has_a_cause_and_stops_no_other(rest: RestWorld) -> None:
    rest.world.files.held[summary_path("acme:b")] = b"poison"
    rest.world.histories.held["acme:b"] = [b"poison"]
    found = {one["task_id"]: one for one in send(rest, {"control": "stop", "tenant": "acme"})["outcomes"]}
    assert {name: one["outcome"] for name, one in found.items()} == {
        "acme:a": "accepted",
        "acme:b": "failed",
        "acme:c": "accepted",
    }
    assert found["acme:b"]["code"] == "corrupt_history"
    assert found["acme:b"]["cause"]


def test_each_retry_is_admitted_as_a_single_one_and_a_repetition_is_not_counted(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def create_task(limits: CallerLimiter, caller: Principal, task_id: str) -> None:
        assert (caller.by, task_id[:5]) == ("key:ops", "acme:")
        if len(counted) == 2:
            raise rate_limited("open_tasks", 30)
        counted.append(task_id)

    rest.replies = [ScriptedReply(error=ModelError("auth", "the key is refused", retryable=False)) for _ in range(9)]
    for name in "abc":
        rest.world.settle(f"acme:{name}")
    monkeypatch.setattr(CallerLimiter, "create_task", create_task)
    body = {"control": "retry", "tenant": "acme", "bulk_id": "night"}
    found = send(rest, body, "acme-ops")
    assert found["counts"] == {"accepted": 2, "repeated": 0, "ended": 0, "failed": 1}
    [refused] = [one for one in found["outcomes"] if one["outcome"] == "failed"]
    assert (refused["code"], refused["new_task_id"] in counted) == ("rate_limited", False)
    assert "the limit open_tasks is reached: repeat the request after 30 s" in refused["cause"]
    assert send(rest, body, "acme-ops")["counts"] == {"accepted": 0, "repeated": 2, "ended": 0, "failed": 1}


@pytest.mark.parametrize(
    ("lacks", "body"),
    [
        (Scope.APPROVE, {"control": "approve"}),
        (Scope.APPROVE, {"control": "deny", "dry_run": True}),
        (Scope.APPROVE, {"control": "answer", "declined": True}),
        (Scope.APPROVE, {"control": "resolve", "happened": True}),
        (Scope.CONTROL, {"control": "send", "message": "hello"}),
        (Scope.CONTROL, {"control": "fork"}),
        (Scope.TEAMS, {"control": "fork", "new_team": {"name": "x", "agents": []}}),
    ],
)
def test_a_decision_a_message_and_a_fork_need_their_own_scopes_too(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, lacks: Scope, body: dict[str, Any]
) -> None:
    monkeypatch.setitem(CALLERS, "few", Principal("key:few", "acme", ALL_SCOPES - {lacks}))
    assert send(rest, body | {"tenant": "acme"}, "few", 403)["code"] == "forbidden"


def test_calls_are_counted_by_tool_and_decided_with_the_name_of_the_caller(rest: RestWorld) -> None:
    rest.world.settle("acme:a")
    rest.run("acme:ships", says("", ("ship", {}), ("ship", {})))
    body = {"control": "deny", "tenant": "acme", "tool": "ship", "reason": "not tonight"}
    count = send(rest, body | {"dry_run": True})
    assert (count["matching"], count["tools"]) == (1, [{"tool": "ship", "effect": "pure", "calls": 2}])
    assert len(rest.get("/v1/tasks/ships/pending").json()["unapproved"]) == 2
    found = send(rest, body | {"cursor": count["start"]})
    assert found["bulk_id"] == count["bulk_id"]
    [outcome] = found["outcomes"]
    assert (outcome["outcome"], len(outcome["calls"]), outcome["item_id"]) == ("accepted", 2, "")
    assert send(rest, body)["outcomes"] == []
    rest.world.settle("acme:ships")
    step = next(step for step in rest.orchestrator.task("acme:ships").history() if step.results)
    assert all("not tonight" in str(result.error) for result in step.results)
    assert {one["by"] for one in step.metadata["approvals"].values()} == {"local"}


def test_each_fork_is_counted_and_held_within_the_budget_of_the_caller(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def create_task(limits: CallerLimiter, caller: Principal, task_id: str) -> None:
        counted.append(task_id)

    monkeypatch.setattr(CallerLimiter, "create_task", create_task)
    few = Principal("key:few", "acme", ALL_SCOPES, limits=CallerLimits(max_tokens=50))
    monkeypatch.setitem(CALLERS, "few", few)
    for name in "abc":
        rest.world.settle(f"acme:{name}")
    body = {"control": "fork", "tenant": "acme", "message": "again"}
    found = send(rest, body, "few", key="night")
    new = [one["new_task_id"] for one in found["outcomes"]]
    assert (found["counts"]["accepted"], sorted(counted)) == (3, sorted(new))
    assert {rest.orchestrator.task(name).team().limits.max_tokens for name in new} == {50}
    again = send(rest, body, "few", key="night")
    assert (again["counts"]["repeated"], [one["new_task_id"] for one in again["outcomes"]]) == (3, new)
    assert len(counted) == 3
    other = send(rest, body | {"new_team": "lab", "team": ["desk"]}, "few")
    assert {rest.orchestrator.task(one["new_task_id"]).team().name for one in other["outcomes"]} == {"lab"}


def test_limits_reach_each_task(rest: RestWorld) -> None:
    send(rest, {"control": "limits", "tenant": "acme", "limits": {"max_steps": 7, "tools": {"ship": {"max_calls": 1}}}})
    rest.world.settle("acme:a")
    assert rest.orchestrator.task("acme:a").limits().max_steps == 7
