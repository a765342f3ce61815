"""A2A for callers of other tenants and teams, with fewer scopes, or without a key."""

import json
from typing import Any

import pytest

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
    assert rest.client.post("/a2a/none", json={}, headers={"authorization": "acme", "A2A-Version": "1.0"}).json()[
        "error"
    ]
