"""Controls and records of a task over HTTP."""

import json
import logging
from typing import Any

import pytest

from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.domain.history.step import verify_chain
from roboco.errors import CorruptHistory, RobocoError, TransientError
from roboco.gateway.rest import records
from tests.support.gateway_rest import KEY, RestWorld
from tests.support.memory_ports.model import says


def keyed(rest: RestWorld, path: str, body: Any, key: str) -> Any:
    """Return the response to POST with an Idempotency-Key."""
    return rest.client.post(path, json=body, headers={KEY: "acme", "Idempotency-Key": key})


def waiting(rest: RestWorld, *replies: Any, **fields: Any) -> str:
    """Run a task until it waits for an approval of its tool call. Return the id of the call."""
    rest.run("acme:t", *(replies or [says("I ship", ("ship", {}))]), **fields)
    [call] = rest.get("/v1/tasks/t/pending").json()["unapproved"]
    return str(call["id"])


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("messages", {"message": "more"}),
        ("interrupt", {"message": "stop that"}),
        ("interrupt", {}),
        ("stop", {"reason": "enough"}),
        ("pause", {}),
        ("step", {}),
        ("resume", {}),
        ("limits", {"limits": {"max_steps": 50}}),
    ],
)
def test_a_repeated_control_is_one_item_by_its_caller(rest: RestWorld, route: str, body: dict[str, Any]) -> None:
    waiting(rest)
    first, again = (keyed(rest, f"/v1/tasks/t/{route}", body, "k") for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202), first.text
    assert first.json()["item_id"] == again.json()["item_id"]
    assert len([path for path in rest.world.files.held if "i_" in path]) <= 1
    receipt = rest.get(first.headers["location"])
    assert (receipt.status_code, receipt.json()["by"]) == (200, "key:acme"), receipt.text


def test_the_same_key_with_another_message_is_refused(rest: RestWorld) -> None:
    waiting(rest)
    assert keyed(rest, "/v1/tasks/t/messages", {"message": "one"}, "k").status_code == 202
    other = keyed(rest, "/v1/tasks/t/messages", {"message": "two"}, "k")
    assert (other.status_code, other.json()["code"]) == (422, "conflict")
    assert keyed(rest, "/v1/tasks/t/messages", {"message": "one", "item_id": "i"}, "k").status_code == 400
    reused = [rest.post("/v1/tasks/t/messages", {"message": text, "item_id": "mine"}) for text in ("one", "two")]
    assert [one.status_code for one in reused] == [202, 409]


def test_a_conflict_with_the_task_is_no_use_of_the_key(rest: RestWorld) -> None:
    waiting(rest)
    rest.post("/v1/tasks", {"team": "desk", "prompt": "work", "task_id": "busy"})
    refused = [
        keyed(rest, "/v1/tasks/t/fork", {"seq": 1}, "k"),  # its call is open
        keyed(rest, "/v1/tasks/busy/messages", {"message": "more", "if_busy": "reject"}, "k"),
    ]
    assert [(one.status_code, one.json()["code"]) for one in refused] == [(409, "conflict")] * 2
    assert not any("Idempotency-Key was used" in one.text for one in refused)


@pytest.mark.parametrize("error", [TransientError("the store is silent"), CorruptHistory("the item is damaged")])
def test_an_error_after_acceptance_hides_no_receipt(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch, error: RobocoError
) -> None:
    waiting(rest)

    def fail(*_: object) -> Receipt:
        raise error

    monkeypatch.setattr(Task, "receipt", fail)
    sent = rest.post("/v1/tasks/t/messages?wait=1", {"message": "more"})
    assert (sent.status_code, sent.json()["applied_at_seq"]) == (202, None), sent.text


def test_a_wait_for_a_result_outlasts_a_server_that_fails_for_a_moment(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.run("acme:t")
    is_at_rest, failures = Task.is_at_rest, iter([True, True, False])

    def read(task: Task) -> bool:
        if next(failures):
            raise TransientError("redis restarts")
        return is_at_rest(task)

    monkeypatch.setattr(Task, "is_at_rest", read)
    assert rest.get("/v1/tasks/t/result?wait=20").json()["text"] == "done"


def test_an_approval_with_other_arguments_is_recorded_with_its_caller(rest: RestWorld) -> None:
    call = waiting(rest)
    path = f"/v1/tasks/t/calls/{call}"
    approved = rest.post(f"{path}/approve", {"args": {}, "reason": "checked"})
    assert approved.json() == {"task_id": "acme:t", "call_id": call, "status": "approved"}
    assert rest.post(f"{path}/approve", {"args": {}, "reason": "checked"}).status_code == 200
    assert rest.post(f"{path}/deny", {"reason": "no"}).status_code == 409
    rest.world.settle("acme:t")
    assert "key:acme" in rest.get("/v1/tasks/t/history").text.partition('"approvals"')[2]
    assert rest.post("/v1/tasks/t/calls/tc_unknown/approve").status_code in (404, 409)


def test_the_audit_log_names_each_created_task(rest: RestWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "roboco.audit"):
        task = rest.post("/v1/tasks", {"team": "desk", "prompt": "hi"}).json()["task_id"]
        rest.world.settle(task)
        fork = rest.post(f"/v1/tasks/{task}/fork", {"message": "again"}).json()["task_id"]
        rest.post(f"/v1/tasks/{fork}/stop", {})
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    facts = [(line["action"], line["task"], line["created"]) for line in lines]
    assert facts == [("create_task", None, task), ("fork_task", task, fork), ("stop_task", fork, None)]


def test_pages_of_the_history_are_the_history_with_its_digests(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.run("acme:t", says("one " * 50), title="a")
    whole = [step.line() for step in rest.world.history("acme:t")]
    for limit, size in ((1, 10**6), (1000, 10), (1000, 10**6)):
        monkeypatch.setattr(records, "MAX_HISTORY_BYTES", size)
        found: list[Any] = []
        start: int | None = 0
        while start is not None:
            page = rest.get(f"/v1/tasks/t/history?start={start}&limit={limit}").json()
            found += page["steps"]
            start = page["next"]
        lines = [json.dumps(step, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for step in found]
        assert lines == whole
        assert verify_chain(lines) == len(whole)
    assert rest.get("/v1/tasks/t/history?start=999").json() == {"steps": [], "next": None}


def test_usage_has_the_limits_of_now(rest: RestWorld) -> None:
    call_id = waiting(rest)
    before = rest.get("/v1/tasks/t/usage").json()["limits"]
    assert rest.post("/v1/tasks/t/limits", {"limits": {"max_steps": 50, "max_cost": 2.5}}).status_code == 202
    rest.post(f"/v1/tasks/t/calls/{call_id}/deny", {})
    rest.world.settle("acme:t")
    assert rest.get("/v1/tasks/t").json()["status"] == "completed"
    changed = before | {"max_steps": 50, "max_cost": 2.5}
    assert before != changed
    assert rest.get("/v1/tasks/t/usage").json()["limits"] == changed
    rest.world.server.wipe()
    assert rest.get("/v1/tasks/t/usage").json()["limits"] == changed, "from the history alone"
