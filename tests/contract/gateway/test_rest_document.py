"""The OpenAPI document is complete, and each of its operations keeps tenants and scopes apart."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.support.gateway_rest import KEY, RestWorld
from tests.support.memory_ports.model import says


@pytest.fixture
def rest(rest: RestWorld) -> RestWorld:
    """Return a gateway with a task that waits for an approval, and one that has ended."""
    rest.run("acme:waits", says("I ship it", ("ship", {})))
    rest.run("acme:ended")
    rest.client.put("/v1/tasks/ended/files/note.txt", content=b"hello" * 10, headers={KEY: "acme"})
    return rest


def test_the_document_names_its_server_its_license_and_every_error(rest: RestWorld, document: dict[str, Any]) -> None:
    assert rest.client.options("/v1/tasks/ended/files/note.txt").headers["allow"] == "GET, HEAD, PUT"
    assert document["servers"] == [{"url": "/"}]
    assert document["info"]["license"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "health" not in operation["tags"]:
                assert {"401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)
                kind = "application/json" if path.startswith("/openai/") else "application/problem+json"
                assert operation["responses"]["401"]["content"].keys() == {kind}, (method, path)
    shop = FastAPI()
    shop.mount("/roboco", rest.app)
    with TestClient(shop) as client:
        assert client.get("/roboco/v1/openapi.json").json()["servers"] == [{"url": "/roboco"}]


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the method, path and description of each operation that concerns a task."""
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "{task_id}" in path and not path.startswith("/v1/operations/")
    ]


def test_another_tenants_task_is_an_unknown_task_in_every_operation(rest: RestWorld, document: dict[str, Any]) -> None:
    """Its whole id, and its id without the tenant, have the response of an id that no tenant has."""
    examples = {"NewMessage": {"message": "hi"}, "ResolutionRequest": {"happened": True}}
    before = dict(rest.world.files.held)
    for method, path, operation in operations(document):
        body = _body(operation, examples)
        answers = []
        for task_id in ("acme:waits", "acme:unknown", "waits", "unknown"):
            filled = path.replace("{task_id}", task_id).replace("{call_id}", "tc_1").replace("{item_id}", "i")
            query = {"name": "new.txt"} if path.endswith("/files") and method == "post" else {}
            answer = rest.client.request(
                method, filled.replace("{name}", "note.txt"), headers={KEY: "other"}, params=query, **body
            )
            answers.append((answer.status_code, answer.text.replace(task_id, "ID")))
        if "put" in method or "name" in query:  # an upload may precede its task, in the caller's own tenant
            assert answers[:2] == [answers[0]] * 2
            assert answers[0][0] == 404
        else:
            assert answers == [answers[0]] * 4, (method, path, answers)
            assert answers[0][0] == (403 if "what-if" in path else 404), (method, path, answers[0])
    kept = {path: data for path, data in rest.world.files.held.items() if not path.startswith("other:")}
    assert kept == before


def test_another_tenants_tasks_are_neither_listed_nor_created(rest: RestWorld) -> None:
    """Filters, cursors, ids and keys do not cross the border of a tenant."""
    assert rest.get("/v1/tasks", caller="other").json()["tasks"] == []
    cursor = rest.get("/v1/tasks?limit=1").json()["cursor"]
    assert rest.get("/v1/tasks", caller="other").json()["tasks"] == []
    assert cursor
    assert rest.get(f"/v1/tasks?cursor={cursor}", caller="other").json()["tasks"] == []
    assert rest.get("/v1/tasks?tenant=acme", caller="other").status_code == 403
    task = {"team": "desk", "prompt": "hi"}
    assert rest.post("/v1/tasks", task | {"tenant": "acme"}, caller="other").status_code == 403
    assert rest.post("/v1/tasks", task | {"task_id": "acme:waits"}, caller="other").status_code == 403
    own, others = (
        rest.client.post("/v1/tasks", json=task, headers={KEY: name, "Idempotency-Key": "k"}).json()
        for name in ("acme", "other")
    )
    assert own["created"]
    assert others["created"]
    assert own["task_id"].removeprefix("acme:") != others["task_id"].removeprefix("other:")


def test_each_operation_needs_a_key_and_a_scope(rest: RestWorld, document: dict[str, Any]) -> None:
    """Without a key the status is 401, without a scope 403, both as problem documents with a remedy."""
    for method, path, operation in operations(document):
        filled = path.replace("{task_id}", "waits").replace("{call_id}", "tc_1").replace("{item_id}", "i")
        query = {"name": "new.txt"} if path.endswith("/files") and method == "post" else {}
        for caller, status in (("", 401), ("none", 403)):
            answer = rest.client.request(
                method,
                filled.replace("{name}", "note.txt"),
                headers={KEY: caller},
                params=query,
                **_body(operation, {"NewMessage": {"message": "hi"}, "ResolutionRequest": {"happened": True}}),
            )
            assert answer.status_code == status, (method, path, answer.text)
            if method != "head":
                assert answer.headers["content-type"] == "application/problem+json"
                assert {"code", "remedy"} <= answer.json().keys()


def _body(operation: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    """Return a valid body for the operation, as an argument of a request."""
    content = operation.get("requestBody", {}).get("content", {})
    if "application/octet-stream" in content:
        return {"content": b"bytes"}
    reference = str(content.get("application/json", {}).get("schema", {}).get("$ref", "")).rpartition("/")[2]
    limits = {"limits": {"max_steps": 3}} if reference == "LimitsRequest" else {}
    return {"json": examples.get(reference, limits)} if content else {}
