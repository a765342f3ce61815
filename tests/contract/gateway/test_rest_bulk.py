"""Bulk controls over HTTP."""

import json
import logging
from typing import Any

import pytest

from roboco.client.operator.bulk import bulk_item_id
from roboco.errors import ModelError
from roboco.gateway.limits import CallerLimiter
from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from roboco.gateway.problem import rate_limited
from tests.support.gateway_rest import CALLERS, KEY, RestWorld
from tests.support.memory_ports.model import ScriptedReply

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


def test_a_tenant_and_a_key_of_some_teams_reach_their_tasks_alone(rest: RestWorld) -> None:
    assert send(rest, {"control": "stop", "tenant": "other"}, "acme-ops", 403)["code"] == "forbidden"
    assert send(rest, {"control": "stop", "team": ["lab"]}, "desk-ops")["outcomes"] == []
    assert items(rest) == []
    found = send(rest, {"control": "stop", "all_tasks": True}, "acme-ops")
    assert sorted(one["task_id"] for one in found["outcomes"]) == items(rest) == ["acme:a", "acme:b", "acme:c"]
    found = send(rest, {"control": "pause", "all_tasks": True}, "desk-ops")
    assert "lab" not in [one["task_id"] for one in found["outcomes"]]
    assert "other:x" in items(rest)


def test_the_scope_operate_is_needed(rest: RestWorld) -> None:
    for caller in ("acme", "plain", "none"):
        assert send(rest, {"control": "stop", "tenant": "acme"}, caller, 403)["code"] == "forbidden"
    assert items(rest) == []


def test_a_request_that_is_wrong_controls_nothing(rest: RestWorld) -> None:
    wrong: list[tuple[dict[str, Any], int]] = [
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
    ]
    for body, status in wrong:
        send(rest, body, status=status)
    assert items(rest) == []


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


def test_a_decision_a_message_and_a_fork_need_their_own_scopes_too(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[tuple[Scope, dict[str, Any]]] = [
        (Scope.APPROVE, {"control": "approve"}),
        (Scope.APPROVE, {"control": "deny", "dry_run": True}),
        (Scope.APPROVE, {"control": "answer", "declined": True}),
        (Scope.APPROVE, {"control": "resolve", "happened": True}),
        (Scope.CONTROL, {"control": "send", "message": "hello"}),
        (Scope.CONTROL, {"control": "fork"}),
        (Scope.TEAMS, {"control": "fork", "new_team": {"name": "x", "agents": []}}),
    ]
    for scope, body in needed:
        monkeypatch.setitem(CALLERS, "few", Principal("key:few", "acme", ALL_SCOPES - {scope}))
        assert send(rest, body | {"tenant": "acme"}, "few", 403)["code"] == "forbidden"
