"""A2A for callers of other tenants and teams, with fewer scopes, or without a key."""

import json
import logging
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.engine.accept import fork
from roboco.errors import TransientError
from roboco.gateway.answers import chats
from tests.support.gateway_rest import RestWorld, rest_world
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.notifications import deliver_all

TASK = "a2a_ctx"
SAID: dict[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go on"}]}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("GetTask", {"id": "ID"}),
    ("CancelTask", {"id": "ID"}),
    ("SubscribeToTask", {"id": "ID"}),
    ("SendMessage", {"message": {**SAID["message"], "taskId": "ID"}}),
    ("CreateTaskPushNotificationConfig", {"taskId": "ID", "url": "https://hooks.example/"}),
    ("GetTaskPushNotificationConfig", {"taskId": "ID", "id": "ID"}),
    ("ListTaskPushNotificationConfigs", {"taskId": "ID"}),
    ("DeleteTaskPushNotificationConfig", {"taskId": "ID", "id": "ID"}),
]
"""The methods that name a task, and their parameters."""
HOOK = "https://hooks.example/"
CONFIG = {"url": HOOK, "token": "canary", "authentication": {"scheme": "Bearer", "credentials": "canary"}}
"""A push notification configuration."""


def ask(rest: RestWorld, caller: str, method: str, params: dict[str, Any], task_id: str = "") -> Any:
    """Return the answer of JSON-RPC."""
    named = json.loads(json.dumps(params).replace("ID", task_id))
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": named}
    headers = {"authorization": caller, "A2A-Version": "1.0"}
    return rest.client.post("/a2a/desk", json=body, headers=headers)


def test_another_tenants_task_is_unknown(rest: RestWorld) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    steps = rest.orchestrator.task(f"acme:{TASK}").history()
    for (method, params), named in product(REQUESTS, (TASK, f"acme:{TASK}", f"acme:{TASK}/../x")):
        assert ask(rest, "other", method, params, named).json()["error"]["code"] == -32001, method
    assert ask(rest, "acme", "GetTask", {"id": "ID"}, TASK).json()["result"]["id"] == TASK
    assert rest.orchestrator.task(f"acme:{TASK}").history() == steps
    listed = ask(rest, "other", "ListTasks", {"contextId": "ctx"}).json()["result"]["tasks"]
    assert listed == ask(rest, "other", "ListTasks", {}).json()["result"]["tasks"] == []


def test_a_request_needs_a_key_its_scopes_and_its_team(rest: RestWorld) -> None:
    assert ask(rest, "", "GetTask", {"id": "ID"}, TASK).status_code == 401
    assert rest.client.get("/a2a/desk/.well-known/agent-card.json").status_code == 401
    push = SAID | {"configuration": {"taskPushNotificationConfig": CONFIG}}
    for method, params in (("SendMessage", push), *(one for one in REQUESTS if "Config" in one[0])):
        refused = ask(rest, "plain", method, params)
        assert refused.status_code == 403, refused.text
    assert rest.client.post("/a2a/none", json={}, headers={"authorization": "acme", "A2A-Version": "1.0"}).json()[
        "error"
    ]


def begun(rest: RestWorld, *replies: ScriptedReply, **config: Any) -> Any:
    """Return the answer to a message that begins a task, with this configuration, after the task came to rest."""
    rest.replies = list(replies)
    options = {"returnImmediately": True} | ({"taskPushNotificationConfig": config} if config else {})
    answered = ask(rest, "acme", "SendMessage", SAID | {"configuration": options}).json()
    if "result" in answered:
        rest.world.settle(f"acme:{answered['result']['task']['id']}")
    return answered


def pushed(rest: RestWorld, url: str) -> list[Any]:
    """Return the states that a webhook has received."""
    deliver_all(rest.world)
    return [notice.status for target, notice in rest.world.notifier.deliveries if target == url]


def test_configurations_are_added_replaced_and_removed_while_the_task_is_open(rest: RestWorld) -> None:
    task = begun(rest, says("", ("ship", {}), ("ship", {})))["result"]["task"]
    ids = {"taskId": task["id"]}

    def call(method: str, **params: Any) -> Any:
        return ask(rest, "acme", f"{method}TaskPushNotificationConfig", ids | params).json()["result"]

    assert call("Create", **CONFIG) == {**ids, "id": task["id"], "url": HOOK, "authentication": {"scheme": "Bearer"}}
    assert pushed(rest, HOOK) == ["approval"]  # it waits already
    call("Create", id="second", url=f"{HOOK}2", authentication={"scheme": "secret_env", "credentials": "HOOK_SECRET"})
    call("Create", id="third", url=f"{HOOK}3")
    call("Create", id="third", url=f"{HOOK}4")
    listed = ask(rest, "acme", "ListTaskPushNotificationConfigs", ids)
    assert [one["url"] for one in listed.json()["result"]["configs"]] == [HOOK, f"{HOOK}2", f"{HOOK}4"]
    assert "canary" not in listed.text
    assert call("Get", id="third") == {**ids, "id": "third", "url": f"{HOOK}4"}
    for _ in range(2):
        assert call("Delete", id="third") == {}
    assert ask(rest, "acme", "GetTaskPushNotificationConfig", ids | {"id": "third"}).json()["error"]["code"] == -32001
    for number in range(6):
        call("Create", id=str(number), url=f"{HOOK}2")
    full = ask(rest, "acme", "CreateTaskPushNotificationConfig", ids | {"url": HOOK, "id": "6"})
    assert full.json()["error"]["code"] == -32602
    assert pushed(rest, f"{HOOK}3") == pushed(rest, f"{HOOK}4") == []
    ask(rest, "acme", "CancelTask", {"id": "ID"}, task["id"])
    rest.world.settle(f"acme:{task['id']}")
    assert pushed(rest, HOOK) == ["approval", "cancelled"]
    assert pushed(rest, f"{HOOK}2") == ["approval"] * 7 + ["cancelled"] * 7
    late = ask(rest, "acme", "CreateTaskPushNotificationConfig", ids | CONFIG)
    assert late.json()["error"]["code"] == -32004


def test_a_message_with_a_ninth_configuration_is_refused_before_it_runs(rest: RestWorld) -> None:
    task = begun(rest, says("", ("ship", {})))["result"]["task"]
    for number in range(8):
        ask(rest, "acme", "CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": HOOK, "id": str(number)})
    files = dict(rest.world.files.held)
    said = SAID["message"] | {"messageId": "n", "metadata": {"ifBusy": "interrupt"}}
    options = {"returnImmediately": True, "taskPushNotificationConfig": {"url": HOOK, "id": "ninth"}}
    for named in ({"taskId": task["id"]}, {"contextId": task["contextId"]}):
        message = said | named
        refused = ask(rest, "acme", "SendMessage", {"message": message, "configuration": options}).json()
        assert "push receivers" in refused["error"]["message"]
    assert rest.world.files.held == files
    options["taskPushNotificationConfig"] = {"url": HOOK, "id": "7"}
    message = said | {"taskId": task["id"]}
    assert "result" in ask(rest, "acme", "SendMessage", {"message": message, "configuration": options}).json()
    ask(rest, "acme", "CancelTask", {"id": task["id"]})
    rest.world.settle(f"acme:{task['id']}")
    options["taskPushNotificationConfig"] = {"url": f"{HOOK}next", "id": "ninth"}
    message = SAID["message"] | {"messageId": "o", "contextId": task["contextId"]}
    rest.replies = [says("done")]
    following = ask(rest, "acme", "SendMessage", {"message": message, "configuration": options}).json()["result"]
    rest.world.settle(f"acme:{following['task']['id']}")
    assert pushed(rest, f"{HOOK}next") == ["completed"]


def test_a_task_that_began_in_another_way_refuses_configurations(rest: RestWorld) -> None:
    """Its coordinators read no receivers: a configuration would be accepted, and nothing delivered."""
    rest.run(f"acme:{TASK}", says("", ("ship", {})))
    create = ask(rest, "acme", "CreateTaskPushNotificationConfig", {"taskId": TASK, **CONFIG})
    assert create.json()["error"]["code"] == -32003
    for named in ({"taskId": TASK}, {"contextId": "ctx"}):
        options = {"returnImmediately": True, "taskPushNotificationConfig": CONFIG}
        message = SAID["message"] | named
        refused = ask(rest, "acme", "SendMessage", {"message": message, "configuration": options}).json()
        assert refused["error"]["code"] == -32003
    assert len(rest.orchestrator.task(f"acme:{TASK}").history()) == 2


def test_a_message_whose_gateway_dies_before_its_configuration_has_it_when_it_is_sent_again(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise TransientError("the gateway stops")

    with monkeypatch.context() as dying:
        dying.setattr(Task, "set_push_receiver", die)
        assert "error" in begun(rest, says("hi"), **CONFIG)
    task = begun(rest, says("hi"), **CONFIG)["result"]["task"]
    assert pushed(rest, HOOK) == ["completed"]
    assert [one["id"] for one in ask(rest, "acme", "ListTasks", {}).json()["result"]["tasks"]] == [task["id"]]


def test_other_keys_of_the_tenant_read_no_query_of_a_webhook(rest: RestWorld) -> None:
    ids = {"taskId": begun(rest, says("", ("ship", {})), url=f"{HOOK}a?key=canary")["result"]["task"]["id"]}
    listed = ask(rest, "acme", "ListTaskPushNotificationConfigs", ids)
    assert [one["url"] for one in listed.json()["result"]["configs"]] == [f"{HOOK}a"]
    assert "canary" not in listed.text


def test_a_removed_configuration_gets_nothing_that_waits_for_its_webhook(rest: RestWorld) -> None:
    rest.world.notifier.error = TransientError("the webhook does not answer")
    ids = {"taskId": begun(rest, says("", ("ship", {})), **CONFIG)["result"]["task"]["id"]}
    ask(rest, "acme", "DeleteTaskPushNotificationConfig", ids | {"id": "ID"}, ids["taskId"])
    rest.world.notifier.error = None
    deliver_all(rest.world)
    assert rest.world.notifier.deliveries == []
    files = b"".join(rest.world.files.held.values())
    assert b"canary" not in files


def test_a_message_names_a_webhook_once_however_often_it_is_sent(rest: RestWorld) -> None:
    task = begun(rest, says("hi"), **CONFIG)["result"]["task"]
    assert pushed(rest, HOOK) == ["completed"]
    for _ in range(2):
        begun(rest, **CONFIG)
    assert pushed(rest, HOOK) == ["completed"]
    going_on = {"message": SAID["message"] | {"contextId": task["contextId"], "messageId": "n"}}
    options = {"configuration": {"returnImmediately": True, "taskPushNotificationConfig": CONFIG}}
    second = ask(rest, "acme", "SendMessage", going_on | options).json()["result"]["task"]
    rest.world.settle(f"acme:{second['id']}")
    assert pushed(rest, HOOK) == ["completed"] * 2


def test_a_wrong_configuration_leaves_no_task(rest: RestWorld) -> None:
    hook = {"url": HOOK}
    for wrong in ({"url": ""}, hook | {"token": "a\r\nb: c"}, hook | {"id": "x" * 300}, {"url": "x" * 3000}):
        assert begun(rest, **wrong)["error"]["code"] == -32602
    assert ask(rest, "acme", "ListTasks", {}).json()["result"]["tasks"] == []


def test_the_audit_log_names_the_caller_and_the_webhook_without_its_secrets(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with rest_world(tmp_path, {"audit_log": log}) as rest:
        task = begun(rest, **CONFIG | {"url": f"{HOOK}?key=canary", "id": "hook"})["result"]["task"]
        ask(rest, "acme", "DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "hook"})
    lines = [json.loads(line) for line in log.read_text().splitlines() if "push_receiver" in line]
    assert [(one["action"], one["by"], one["push_id"], one.get("webhook"), one["outcome"]) for one in lines] == [
        (action, "key:acme", "hook", webhook, outcome)
        for action, webhook in (("set_push_receiver", HOOK), ("remove_push_receiver", None))
        for outcome in ("begun", "accepted")
    ]
    assert "canary" not in log.read_text()


def test_a_message_that_is_no_json_is_refused_in_the_form_of_its_binding(rest: RestWorld) -> None:
    headers = {"authorization": "acme", "A2A-Version": "1.0"}
    refused = rest.client.post("/a2a/desk/message:send", content=b"{", headers=headers)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["details"][0]["reason"] == "INVALID_REQUEST"


WRONG: list[tuple[bytes, dict[str, str], int]] = [
    (b"{", {}, -32700),
    (b"[" * 100_000, {}, -32600),
    (b"[" * 20_000 + b"]" * 20_000, {}, -32700),
    (b'{"jsonrpc":"2.0","method":"GetTask","method":"x"}', {}, -32602),
    (b"[]", {}, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"Nothing"}', {}, -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', {}, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}', {}, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}', {}, -32004),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a2a_1"}}', {"A2A-Version": "0.3"}, -32009),
]


def test_errors_have_the_form_of_json_rpc(rest: RestWorld) -> None:
    for body, more, code in WRONG:
        headers = {"authorization": "acme", "A2A-Version": "1.0", "Content-Type": "application/json"} | more
        found = rest.client.post("/a2a/desk", content=body, headers=headers).json()
        assert found["error"]["code"] == code, (body[:80], found)


def test_a_webhook_of_a_submission_is_no_push_receiver(rest: RestWorld) -> None:
    push = {"id": "a", "task_id": "t", "context_id": "c", "authorization": "Bearer x"}
    body = {"team": "desk", "prompt": "hi", "notify": [{"webhook": HOOK, "push": push}]}
    assert rest.post("/v1/tasks", body).status_code == 400


def said(message_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return the parameters of a message in the context `ctx`."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], "contextId": "ctx", **fields}
    return {"message": message, "configuration": {"returnImmediately": True}}


def test_a_message_id_counts_for_one_text(rest: RestWorld) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    first = ask(rest, "acme", "SendMessage", said("m", "go on")).json()["result"]["task"]
    again = ask(rest, "acme", "SendMessage", said("m", "go on")).json()["result"]["task"]
    assert first["id"] == again["id"] == f"{TASK}_2"
    assert ask(rest, "acme", "SendMessage", said("m", "another")).json()["error"]["code"] == -32602
    rest.world.settle(f"acme:{TASK}_2")
    assert ask(rest, "acme", "SendMessage", said("m", "another")).json()["error"]["code"] == -32602


def test_a_message_that_loses_the_next_task_to_another_one_follows_it(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While that task begins, the client is asked to repeat its message: nothing of it was wrong."""
    rest.run(f"acme:{TASK}", says("hi"))
    monkeypatch.setattr(chats, "GROWTH_PAUSES", (0.0,))
    task = rest.orchestrator.task(f"acme:{TASK}")
    with monkeypatch.context() as dying:
        dying.setattr(fork, "_store_summary", _die)
        with pytest.raises(TransientError):
            task.fork(None, "first", task_id=f"{TASK}_2", item_id="a2a-first-1")
    busy = ask(rest, "acme", "SendMessage", said("m", "second"))
    assert (busy.status_code, busy.json()["error"]["code"], "retry-after" in busy.headers) == (503, -32603, True)
    task.fork(None, "first", task_id=f"{TASK}_2", item_id="a2a-first-1")
    found = ask(rest, "acme", "SendMessage", said("m", "second")).json()["result"]["task"]
    rest.world.settle(f"acme:{TASK}_2")
    texts = [step.text for step in rest.orchestrator.task(f"acme:{TASK}_2").steps() if step.agent_name == "user"]
    assert (found["id"], texts) == (f"{TASK}_2", ["hello", "first", "second"])


def _die(*_: object) -> None:
    raise TransientError("the process dies")


def test_a_message_to_a_task_that_ends_meanwhile_begins_the_next_one(
    rest: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    before = rest.orchestrator.task(f"acme:{TASK}").summary().model_copy(update={"status": TaskStatus.RUNNING})
    monkeypatch.setattr(Task, "summary", lambda _: before)
    assert ask(rest, "acme", "SendMessage", said("m", "go on")).json()["result"]["task"]["id"] == f"{TASK}_2"


def test_an_erased_task_hides_no_other_one(rest: RestWorld) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    ask(rest, "acme", "SendMessage", said("m", "go on"))
    rest.world.settle(f"acme:{TASK}_2")
    rest.client.post(f"/v1/operations/erasures/acme:{TASK}_2", json={}, headers={"authorization": "local"})
    rest.world.sweep()
    for params in ({"contextId": "ctx"}, {}):
        listed = ask(rest, "acme", "ListTasks", params).json()
        assert [one["id"] for one in listed["result"]["tasks"]] == [TASK], listed


def test_a_huge_number_is_a_wrong_parameter(rest: RestWorld) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    listed = ask(rest, "acme", "ListTasks", {"contextId": "ctx", "pageToken": "9" * 5000})
    sent = ask(rest, "acme", "SendMessage", said("m", "", parts=[{"data": 10**400}]))
    assert (listed.status_code, sent.status_code) == (200, 200), (listed.text, sent.text)


def test_arguments_that_protobuf_cannot_hold_are_shown_as_texts(rest: RestWorld) -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"a": deep}
    rest.run(f"acme:{TASK}", says("", ("ship", {"n": 10**400, "exact": 2**53 + 1, "deep": deep})))
    task = ask(rest, "acme", "GetTask", {"id": "ID"}, TASK).json()["result"]
    [part] = task["status"]["message"]["parts"]
    assert part["data"]["args"]["n"] == str(10**400)
    assert part["data"]["args"]["exact"] == str(2**53 + 1)


def test_the_audit_log_and_the_metrics_name_operations(rest: RestWorld, caplog: pytest.LogCaptureFixture) -> None:
    rest.run(f"acme:{TASK}", says("", ("ship", {})))
    headers = {"authorization": "acme", "A2A-Version": "1.0"}
    with caplog.at_level(logging.INFO, "roboco.audit"):
        ask(rest, "other", "CancelTask", {"id": "ID"}, TASK)
        sent = ask(rest, "acme", "SendMessage", SAID | {"configuration": {"returnImmediately": True}})
        rest.client.post(f"/a2a/desk/tasks/{TASK}:cancel", json={}, headers=headers)
        ask(rest, "acme", "Unknown", {})
    begun = sent.json()["result"]["task"]["id"]
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    assert [(one["action"], one["task"], one["outcome"]) for one in lines] == [
        ("CancelTask", TASK, "refused"),
        ("SendMessage", f"acme:{begun}", "accepted"),
        ("CancelTask", TASK, "accepted"),
        ("a2a", None, "refused"),
    ]


def test_a_wrong_value_of_a_query_is_refused(rest: RestWorld) -> None:
    headers = {"authorization": "acme", "A2A-Version": "1.0"}
    for query in ("status=BAD", "includeArtifacts=maybe"):
        refused = rest.client.get(f"/a2a/desk/tasks?{query}", headers=headers)
        assert (refused.status_code, "must be" in refused.text) == (400, True)
    assert rest.client.get("/a2a/desk/tasks?status=TASK_STATE_WORKING", headers=headers).status_code == 200


def test_an_answer_to_a_call_that_decides_nothing_is_refused(rest: RestWorld) -> None:
    task = rest.orchestrator.task(rest.run(f"acme:{TASK}", says("", ("ship", {}))))
    [call] = task.pending_actions().unapproved()
    for data in ({"callId": call.id, "approved": "true"}, {"callId": call.id}):
        message = {"messageId": "m", "role": "ROLE_USER", "taskId": TASK, "parts": [{"data": data}]}
        assert ask(rest, "acme", "SendMessage", {"message": message}).json()["error"]["code"] == -32602
    waits = ask(rest, "acme", "SendMessage", {"message": SAID["message"] | {"taskId": TASK}})
    assert call.id in waits.json()["error"]["message"]
    assert task.pending_actions().unapproved() == [call]
