"""The REST routes and their OpenAPI document agree: generated requests, and each operation of another tenant."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import FailureGroup, ServerError
from schemathesis.core.result import Ok
from schemathesis.openapi.checks import RejectedPositiveData

from roboco.domain.dead_letter import dead_letter_of_lost_work
from tests.contract.gateway.operations import TAGS
from tests.support.gateway_rest import KEY, RestWorld
from tests.support.memory_ports.model import says

EXAMPLES = 6
"""Valid and as many invalid requests of each operation."""
CONFIG = {
    "generation": {"with-security-parameters": False},
    # A valid body may contradict the team or the task: 400.
    "checks": {
        "positive_data_acceptance": {
            "expected-statuses": [200, 201, 202, 206, 304, 307, 400, 401, 403, 404, 409, 413, 416, 429, 503]
        }
    },
}
AUTHENTICATION = {KEY: "acme"}
OPERATOR = {KEY: "local"}
"""The authentication of the operations of operators."""
LETTER = dead_letter_of_lost_work("turn", "acme:ended", "writer, step 1", "lost", 5, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def rest(rest: RestWorld) -> RestWorld:
    """Return a gateway with a task that waits for an approval, one that has ended, and a dead letter."""
    rest.run("acme:waits", says("I ship it", ("ship", {})))
    rest.run("acme:ended")
    rest.world.engine.tasks.dead_letters.add(LETTER)
    rest.client.put("/v1/tasks/ended/files/note.txt", content=b"hello" * 10, headers=AUTHENTICATION)
    return rest


def is_meant(failure: BaseException, response: Any) -> bool:
    """Return True for a refusal that the document cannot express.

    A validator of Python or a used Idempotency-Key refuses a body that its schema allows. A server may be busy.
    """
    if isinstance(failure, ServerError):
        return response.status_code == 503 and "retry-after" in response.headers
    problem = response.json() if isinstance(failure, RejectedPositiveData) and response.status_code == 422 else {}
    mistakes = problem.get("mistakes", [])
    by_validator = bool(mistakes) and all(one["problem"].startswith("Value error") for one in mistakes)
    return by_validator or problem.get("code") == "conflict"


class Fuzzer:
    """Generated requests to all operations, the failures of their responses, and the numbers of their statuses."""

    def __init__(self, rest: RestWorld) -> None:
        self.rest = rest
        self.failures: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self._numbers = iter(range(10**9))
        [call] = rest.get("/v1/tasks/waits/pending").json()["unapproved"]
        self._known = [
            {"task_id": "waits", "call_id": call["id"]},
            {"task_id": "ended", "name": "note.txt"},
            {"name": "desk"},
            {"letter_id": LETTER.letter_id},
        ]

    def run(self, operation: Any) -> None:
        """Send valid and invalid requests to an operation."""
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            check = self._check(mode is GenerationMode.POSITIVE)
            cases = operation.as_strategy(generation_mode=mode)
            try:
                given(case=cases)(check)()
            except Unsatisfiable:
                assert all(body.media_type == "application/octet-stream" for body in operation.body)  # never wrong
                assert not operation.path_parameters

    def _check(self, valid: bool) -> Callable[[Case[Any]], None]:
        @seed(20)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Case[Any]) -> None:
            if valid:
                self._name_existing(case)
            headers = OPERATOR if "operations" in case.operation.tags else AUTHENTICATION
            response = case.call(headers=headers)
            self.statuses[response.status_code] += 1
            try:
                case.validate_response(response, headers=headers)
            except FailureGroup as found:
                for failure in found.exceptions:
                    if is_meant(failure, response):
                        continue
                    key = f"{case.operation.label} {type(failure).__name__} {response.status_code}"
                    self.failures.setdefault(key, f"{failure}\n{case.as_curl_command()}\n{response.text[:400]}")

        return check

    def _name_existing(self, case: Case[Any]) -> None:
        """Let four of five requests name what exists. Requests must not wait."""
        number = next(self._numbers) % (len(self._known) + 1)
        known = self._known[number] if number < len(self._known) else {}
        case.path_parameters |= {name: known[name] for name in case.path_parameters if name in known}
        if "wait" in (case.query or {}):
            case.query["wait"] = 0


def test_generated_requests_get_documented_responses(rest: RestWorld) -> None:
    """Status, headers, content type and body of each response are those of the document, and none is 500."""
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", rest.app, config=schemathesis.Config.from_dict(CONFIG))
    fuzzer = Fuzzer(rest)
    for found in schema.include(tag=sorted(TAGS)).get_all_operations():
        assert isinstance(found, Ok)
        fuzzer.run(found.ok())
    assert fuzzer.failures == {}, "\n\n".join(f"{key}: {text}" for key, text in fuzzer.failures.items())
    assert set(fuzzer.statuses) >= {200, 201, 202, 400, 404, 409, 422}


def test_the_document_names_its_server_its_license_and_every_error(rest: RestWorld) -> None:
    document = rest.client.get("/v1/openapi.json").json()
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


def operations(rest: RestWorld) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the method, path and description of each operation that concerns a task."""
    paths = rest.client.get("/v1/openapi.json").json()["paths"]
    return [
        (method, path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "{task_id}" in path and not path.startswith("/v1/operations/")
    ]


def test_another_tenants_task_is_an_unknown_task_in_every_operation(rest: RestWorld) -> None:
    """Its whole id, and its id without the tenant, have the response of an id that no tenant has."""
    examples = {"NewMessage": {"message": "hi"}, "ResolutionRequest": {"happened": True}}
    before = dict(rest.world.files.held)
    for method, path, operation in operations(rest):
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


def test_each_operation_needs_a_key_and_a_scope(rest: RestWorld) -> None:
    """Without a key the status is 401, without a scope 403, both as problem documents with a remedy."""
    for method, path, operation in operations(rest):
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
