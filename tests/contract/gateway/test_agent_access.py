"""A2A for callers of other tenants and teams, with fewer scopes, or without a key."""

import json
from typing import Any

import pytest

from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.engine.accept import fork
from roboco.errors import TransientError
from roboco.gateway.answers import chats
from tests.support.gateway_rest import RestWorld
from tests.support.memory_ports.model import says

TASK = "a2a_ctx"
SAID: dict[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go on"}]}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("GetTask", {"id": "ID"}),
    ("CancelTask", {"id": "ID"}),
    ("SubscribeToTask", {"id": "ID"}),
    ("SendMessage", {"message": {**SAID["message"], "taskId": "ID"}}),
]
"""The methods that name a task, and their parameters."""


def ask(rest: RestWorld, caller: str, method: str, params: dict[str, Any], task_id: str = "") -> Any:
    """Return the answer of JSON-RPC."""
    named = json.loads(json.dumps(params).replace("ID", task_id))
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": named}
    headers = {"authorization": caller, "A2A-Version": "1.0"}
    return rest.client.post("/a2a/desk", json=body, headers=headers)


@pytest.mark.parametrize(("method", "params"), REQUESTS)
def test_another_tenants_task_is_unknown(rest: RestWorld, method: str, params: dict[str, Any]) -> None:
    rest.run(f"acme:{TASK}", says("hi"))
    steps = rest.orchestrator.task(f"acme:{TASK}").history()
    for named in (TASK, f"acme:{TASK}", f"acme:{TASK}/../x"):
        assert ask(rest, "other", method, params, named).json()["error"]["code"] == -32001
    assert ask(rest, "acme", "GetTask", {"id": "ID"}, TASK).json()["result"]["id"] == TASK
    assert rest.orchestrator.task(f"acme:{TASK}").history() == steps
    listed = ask(rest, "other", "ListTasks", {"contextId": "ctx"}).json()["result"]["tasks"]
    assert listed == ask(rest, "other", "ListTasks", {}).json()["result"]["tasks"] == []


def test_a_request_needs_a_key_its_scopes_and_its_team(rest: RestWorld) -> None:
    assert ask(rest, "", "GetTask", {"id": "ID"}, TASK).status_code == 401
    assert rest.client.get("/a2a/desk/.well-known/agent-card.json").status_code == 401
    config = {"url": "http://169.254.169.254/", "authentication": {"scheme": "x", "credentials": "HOOK_SECRET"}}
    push = SAID | {"configuration": {"taskPushNotificationConfig": config}}
    refused = ask(rest, "plain", "SendMessage", push)
    assert refused.status_code == 403, refused.text
    secret = ask(rest, "acme", "SendMessage", push)  # of a client that sends the secret, as A2A has it
    assert secret.json()["error"]["code"] == -32003
    assert "HOOK_SECRET" not in secret.text
    assert rest.client.post("/a2a/none", json={}, headers={"authorization": "acme", "A2A-Version": "1.0"}).json()[
        "error"
    ]


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


@pytest.mark.parametrize(
    "params", [{"contextId": "ctx", "pageToken": "9" * 5000}, said("m", "", parts=[{"data": 10**400}])]
)
def test_a_huge_number_is_a_wrong_parameter(rest: RestWorld, params: dict[str, Any]) -> None:
    method = "SendMessage" if "message" in params else "ListTasks"
    rest.run(f"acme:{TASK}", says("hi"))
    answered = ask(rest, "acme", method, params)
    assert answered.status_code == 200, answered.text


def test_arguments_that_protobuf_cannot_hold_are_shown_as_texts(rest: RestWorld) -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"a": deep}
    rest.run(f"acme:{TASK}", says("", ("ship", {"n": 10**400, "exact": 2**53 + 1, "deep": deep})))
    task = ask(rest, "acme", "GetTask", {"id": "ID"}, TASK).json()["result"]
    [part] = task["status"]["message"]["parts"]
    assert part["data"]["args"]["n"] == str(10**400)
    assert part["data"]["args"]["exact"] == str(2**53 + 1)
