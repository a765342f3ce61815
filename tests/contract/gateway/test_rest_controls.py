"""Controls and records of a task over HTTP."""

import json
import logging
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.client.task_explanation import explanation_of
from roboco.domain.history.step import verify_chain
from roboco.errors import CorruptHistory, ModelError, RobocoError, TransientError
from roboco.gateway.rest import records
from tests.support.gateway_rest import KEY, RestWorld
from tests.support.memory_ports.model import ScriptedReply, says

TOOL = {"name": "client_pick", "description": "Let the user pick."}


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


def test_a_receipt_shows_the_step_that_a_message_became(rest: RestWorld) -> None:
    call = waiting(rest)
    sent = rest.post("/v1/tasks/t/messages", {"message": "more"})
    assert sent.json()["applied_at_seq"] is None
    assert rest.post(f"/v1/tasks/t/calls/{call}/approve").status_code == 200
    rest.world.settle("acme:t")
    applied = rest.get(sent.headers["location"]).json()["applied_at_seq"]
    step = rest.get(f"/v1/tasks/t/history?start={applied}&limit=1").json()["steps"][0]
    assert step["metadata"]["item_id"] == sent.json()["item_id"]


def test_waiting_for_an_effect_ends_in_time_and_keeps_the_receipt(rest: RestWorld) -> None:
    waiting(rest)
    sent = rest.post("/v1/tasks/t/stop?wait=0.1")
    assert (sent.status_code, sent.json()["applied_at_seq"]) == (202, None)
    rest.world.settle("acme:t")
    again = rest.post("/v1/tasks/t/stop?wait=20")
    assert (again.status_code, again.json()["expired"]) == (202, True)
    assert rest.post("/v1/tasks/t/stop?wait=21").status_code == 422


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


def test_an_ended_task_takes_no_message(rest: RestWorld) -> None:
    rest.run("acme:t")
    answer = rest.post("/v1/tasks/t/messages", {"message": "more"})
    assert (answer.status_code, answer.json()["code"]) == (409, "ended")
    assert "fork" in answer.json()["remedy"]
    assert rest.get("/v1/tasks/t/receipts/nope").status_code == 404


def test_a_failed_task_is_retried_once_by_its_caller(rest: RestWorld) -> None:
    broken = ScriptedReply(error=ModelError("auth", "the key is refused", retryable=False))
    rest.run("acme:t", broken)
    assert rest.get("/v1/tasks/t").json()["status"] == "failed"
    refused = rest.post("/v1/tasks/t/retry", {"from_step": 7})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    body = {"reason": "a new key", "from_step": 0}
    first, again = (rest.post("/v1/tasks/t/retry", body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200), first.text
    new = first.json()["task_id"]
    assert first.json() == {"task_id": new, "team": "desk", "created": True} == again.json() | {"created": True}
    other = rest.post("/v1/tasks/t/retry", {})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert "was retried by key:acme at" in other.json()["detail"]
    rest.world.settle(new)
    assert rest.post("/v1/tasks/t/retry", body).status_code == 200
    task, failed = rest.get(first.headers["location"]).json(), rest.get("/v1/tasks/t").json()
    assert (task["status"], task["retry_of"]) == ("completed", "acme:t")
    assert (failed["status"], failed["retried_as"]) == ("failed", new)
    steps = rest.get(f"{first.headers['location']}/history").json()["steps"]
    assert [step["metadata"].get("by") for step in steps if "retry" in step["metadata"]] == ["key:acme"]


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


def test_a_client_tool_is_answered(rest: RestWorld) -> None:
    rest.run("acme:t", says("", ("client_pick", {"n": 1})), client_tools=[TOOL])
    assert rest.get("/v1/tasks/t").json()["status"] == "client_tool_turn"
    [call] = rest.get("/v1/tasks/t/pending").json()["unanswered"]
    path = f"/v1/tasks/t/calls/{call['id']}/answer"
    assert rest.post(path, {"result": {"picked": [1, 2]}}, caller="none").status_code == 403
    assert rest.post(path, {"result": {"picked": [1, 2]}}).json()["status"] == "answered"
    assert rest.post(path, {"result": {"picked": [1, 2]}}).status_code == 200
    assert rest.post(path, {"result": "other"}).status_code == 409
    assert rest.post(path, {"status": "error", "result": 1}).status_code == 400
    rest.world.settle("acme:t")
    assert rest.get("/v1/tasks/t/result?wait=1").json()["text"] == "done"


def test_a_fork_continues_a_task_and_is_repeatable(rest: RestWorld) -> None:
    rest.run("acme:t")
    first, again = (keyed(rest, "/v1/tasks/t/fork", {"message": "again"}, "k") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200), first.text
    fork = first.json()["task_id"]
    assert again.json()["task_id"] == fork
    assert keyed(rest, "/v1/tasks/t/fork", {"message": "other"}, "k").status_code == 422
    rest.world.settle(fork)
    session = rest.get(f"/v1/tasks/{fork}/session").json()
    assert session["lineage"]["forked_from_task_id"] == "acme:t"
    assert rest.post("/v1/tasks/t/fork", {"task_id": "other:x"}).status_code == 403
    assert rest.post("/v1/tasks/t/fork", {"seq": 99}).status_code in (400, 404)


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


def test_records_are_those_of_the_client_library(rest: RestWorld) -> None:
    waiting(rest)
    task = rest.orchestrator.task("acme:t")
    for path, expected in {
        "why": explanation_of(task),
        "why?step=1": explanation_of(task, "1"),
        "context": task.context_report(),
        "session": task.session(),
        "session?form=roboto": task.session(form="roboto"),
        "delta": task.delta(),
    }.items():
        assert rest.get(f"/v1/tasks/t/{path}").json() == to_jsonable_python(expected), path
    token = rest.get("/v1/tasks/t/delta").json()["continuation_token"]
    assert rest.get(f"/v1/tasks/t/delta?token={token}").json()["messages_by_idx"] == {}
    assert rest.get("/v1/tasks/t/delta?token=x").status_code == 400
    assert rest.get("/v1/tasks/t/why?step=99").status_code in (400, 404)
    assert rest.get("/v1/tasks/t/context?step=0").status_code == 404
    assert rest.get("/v1/tasks/t/usage").json()["total"]["tokens_in"] == 10


def test_a_client_tool_may_declare_the_schema_of_its_result(rest: RestWorld) -> None:
    schema = {"type": "object", "properties": {"degrees": {"type": "integer"}}}
    rest.run("acme:t", client_tools=[TOOL | {"output_schema": schema}])
    [declared] = rest.get("/v1/tasks/t/history").json()["steps"][0]["metadata"]["client_tools"]
    assert declared["output_schema"] == schema
    wrong = {"team": "desk", "prompt": "hello", "client_tools": [TOOL | {"output_schema": {"type": "nonsense"}}]}
    refused = rest.post("/v1/tasks", wrong)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert "client_tools.client_pick.output_schema" in refused.json()["detail"]


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


def test_the_usage_has_the_effects_of_declared_tools_and_the_limits_of_now(rest: RestWorld) -> None:
    rest.run("acme:t", conversation=True)
    before = rest.get("/v1/tasks/t/usage").json()
    assert (before["limits"]["max_steps"], before["effects"]) == (100, {"ship": "pure"})
    assert rest.post("/v1/tasks/t/limits", {"limits": {"max_cost": 2.5}}).status_code == 202
    rest.world.settle("acme:t")
    assert rest.get("/v1/tasks/t/usage").json()["limits"]["max_cost"] == 2.5


def test_a_changed_history_is_found(rest: RestWorld) -> None:
    rest.run("acme:t")
    assert rest.get("/v1/tasks/t/verify").json() == {"intact": True, "steps": 2, "unfinished_line": False}
    lines = rest.world.histories.held["acme:t"]
    lines[1] = lines[1].replace(b"done", b"gone")
    found = rest.get("/v1/tasks/t/verify").json()
    assert (found["intact"], found["code"]) == (False, "corrupt_history")


def test_the_result_of_a_task_that_has_accepted_a_message_is_none_yet(rest: RestWorld) -> None:
    """Else a client that sends a message and asks for the result would take the text before it for the answer."""
    rest.run("acme:t", says("hello"), says("more, then"), conversation=True)
    assert rest.get("/v1/tasks/t/result").json()["status"] == "user_turn"
    rest.post("/v1/tasks/t/messages", {"message": "more"})
    for wait in ("", "?wait=0.1"):
        result = rest.get(f"/v1/tasks/t/result{wait}").json()
        assert (result["status"], result["reason"]) == ("running", "")
    rest.world.settle("acme:t")
    result = rest.get("/v1/tasks/t/result?wait=1").json()
    assert (result["status"], result["text"]) == ("user_turn", "more, then")
