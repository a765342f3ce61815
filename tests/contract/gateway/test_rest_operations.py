"""The REST routes of operators: queues, workers, rate limits and dead letters of all tenants."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from roboco.domain.dead_letter import DeadLetter, dead_letter_of_lost_work
from roboco.errors import TransientError
from roboco.gateway.principal import Principal, Scope
from roboco.ports.registry import Registration, WorkerLoad, WorkspaceIdentity
from tests.support.gateway_rest import CALLERS, KEY, RestWorld
from tests.support.memory_ports.registry import MemoryWorkerRegistry

BODIES = {
    "/v1/operations/workers/drain": {"worker": "celery@a"},
    "/v1/operations/switches/off": {"target": "tool:add", "reason": "why"},
    "/v1/operations/switches/on": {"target": "tool:add"},
    "/v1/operations/erasures": {"tenant": "acme", "dry_run": False},
    "/v1/operations/memory/erasure": {"tenant": "acme", "of": "context.user", "value": "ann"},
}
SECRET = "the customer's secret"


def letter(number: int, **fields: Any) -> DeadLetter:
    """Return a dead letter that a worker stores at this minute."""
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    lost = dead_letter_of_lost_work("turn", f"acme:t{number}", "writer, step 3", "lost 5 times", 5, time)
    return lost.model_copy(update={"letter_id": f"dead_{number}", "body": SECRET, **fields})


def operate(rest: RestWorld, path: str, method: str = "GET", status: int = 200, body: Any = None) -> Any:
    """Return the JSON of a request of an operator."""
    answer = rest.client.request(method, f"/v1/operations{path}", headers={KEY: "local"}, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_only_operators_of_all_tenants_and_teams_see_the_deployment(
    rest: RestWorld, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bulk controls are for tenants, too."""
    monkeypatch.setitem(CALLERS, "of a tenant", Principal("key:t", "acme", frozenset({Scope.OPERATE})))
    monkeypatch.setitem(CALLERS, "of teams", Principal("key:d", None, frozenset(Scope), frozenset({"desk"})))
    lacking, limited = "this key lacks the scope 'operate'", "all tenants"
    reasons = {"acme": lacking, "plain": lacking, "none": lacking, "of a tenant": limited, "of teams": limited}
    rest.run("acme:t1")
    rest.world.engine.tasks.dead_letters.add(letter(1))
    before = dict(rest.world.files.held)
    paths = [path for path in document["paths"] if path.startswith("/v1/operations") and not path.endswith("/bulk")]
    assert len(paths) > 10
    for path, (caller, reason) in product(paths, reasons.items()):
        place = path.replace("{task_id}", "acme:t1").replace("{letter_id}", "dead_1")
        for method in document["paths"][path]:
            answer = rest.client.request(method, place, headers={KEY: caller}, json=BODIES.get(path))
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, path, caller)
            assert reason in answer.json()["detail"]
    assert rest.world.files.held == before
    assert rest.world.engine.tasks.dead_letters.count() == 1


def test_a_worker_is_listed_once_with_its_pools_and_its_work(rest: RestWorld) -> None:
    server, clock, workspace = rest.world.server, rest.world.clock, WorkspaceIdentity("a", "file:///a")
    load = WorkerLoad(2, ("acme:t1/0003/turn/1", "acme:t1/0004/tool/tc_1/1"), (1_800_000_000.0, 1_800_000_001.0))
    MemoryWorkerRegistry(server, clock, "w1").register(Registration(("tools",), (), workspace), False)
    clock.move(60)
    MemoryWorkerRegistry(server, clock, "w2").register(Registration(("agents", "tools"), (), workspace, load), False)
    found = operate(rest, "/workers")
    pools = {pool["name"]: (pool["live"], pool["registered"]) for pool in found["pools"]}
    assert pools["tools"] == (1, 2)
    assert pools["agents"] == (1, 1)
    live, silent = found["workers"]
    assert live == {
        "name": "w2",
        "pools": ["agents", "tools"],
        "alive": True,
        "silent_for": live["silent_for"],
        "active": 2,
        "running": list(load.running),
        "held": [
            {"id": load.running[0], "task_id": "acme:t1", "kind": "turn", "since": "2027-01-15T08:00:00Z"},
            {"id": load.running[1], "task_id": "acme:t1", "kind": "tool", "since": "2027-01-15T08:00:01Z"},
        ],
        "version": "",
        "modules": [],
        "draining": False,
        "drains_for": None,
    }
    assert live["silent_for"] < 10
    assert (silent["name"], silent["alive"]) == ("w1", False)
    assert silent["silent_for"] >= 60
    assert [one["name"] for one in operate(rest, "/workers?limit=1")["workers"]] == ["w2"]


def test_a_worker_that_drains_is_asked_once_and_leaves_its_pools(rest: RestWorld) -> None:
    server, clock, workspace = rest.world.server, rest.world.clock, WorkspaceIdentity("a", "file:///a")
    registry = MemoryWorkerRegistry(server, clock, "w1")
    worker = Registration(("agents", "tools"), (), workspace)
    registry.register(worker, False)
    asked = operate(rest, "/workers/drain", "POST", body={"worker": "w1", "timeout": 5})
    assert (asked["name"], asked["draining"]) == ("w1", False)
    request = registry.take_drain_request()
    assert request is not None
    assert request.timeout == 5
    registry.register(replace(worker, drains_for=4.0), False)
    assert operate(rest, "/workers/drain", "POST", body={"worker": "w1"})["draining"]
    assert registry.take_drain_request() is None
    found = operate(rest, "/workers")
    assert [(one["name"], one["pools"], one["draining"]) for one in found["workers"]] == [
        ("w1", ["agents", "tools"], True)
    ]
    assert {pool["live"] for pool in found["pools"]} == {0}
    registry.unregister(worker.pools)
    assert operate(rest, "/workers")["workers"] == []
    assert "no live worker 'w1'" in operate(rest, "/workers/drain", "POST", 404, {"worker": "w1"})["detail"]


def test_what_cannot_be_switched_off_is_refused(rest: RestWorld) -> None:
    for target in ("gpt-4o", "model:", "models:gpt-4o", "queue:coordinator", "queue:x", "tool:a\tb"):
        answer = operate(rest, "/switches/off", "POST", 400, {"target": target, "reason": "why"})
        assert answer["code"] == "invalid"


def test_pages_of_dead_letters_have_each_letter_once_without_its_body(rest: RestWorld) -> None:
    for number in range(5):
        rest.world.engine.tasks.dead_letters.add(letter(number))
    found, cursor = [], ""
    while True:
        page = operate(rest, f"/dead-letters?limit=2&cursor={cursor}")
        assert len(page["dead_letters"]) <= 2
        assert SECRET not in json.dumps(page)
        found += [one["letter_id"] for one in page["dead_letters"]]
        if found == ["dead_4", "dead_3"]:  # a page does not move if letters are stored or dismissed meanwhile
            rest.world.engine.tasks.dead_letters.add(letter(9))
            rest.world.engine.tasks.dead_letters.remove("dead_3")
        cursor = page["cursor"]
        if not cursor:
            break
    assert found == [f"dead_{number}" for number in (4, 3, 2, 1, 0)]
    assert operate(rest, "/dead-letters/dead_2")["body"] == SECRET
    assert operate(rest, "")["dead_letters"] == 5
    assert operate(rest, "/dead-letters?cursor=x:y:z", status=400)["code"] == "invalid"


def test_a_dismissed_letter_is_gone_and_its_dismissal_is_in_the_audit_log(
    rest: RestWorld, caplog: pytest.LogCaptureFixture
) -> None:
    rest.world.engine.tasks.dead_letters.add(letter(1))
    with caplog.at_level(logging.INFO, "roboco.audit"):
        done = operate(rest, "/dead-letters/dead_1/dismiss", "POST")
        assert done == {"letter_id": "dead_1", "name": "roboco.turn", "status": "dismissed"}
        again = operate(rest, "/dead-letters/dead_1/dismiss", "POST", 404)
    assert "was requeued or dismissed" in again["detail"]
    assert again["remedy"]
    assert rest.world.engine.tasks.dead_letters.entries() == []
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "roboco.audit"]
    facts = [(line["action"], line["by"], line["outcome"], line["path"]) for line in lines]
    path = "/v1/operations/dead-letters/dead_1/dismiss"
    assert facts == [("dismiss_dead_letter", "local", one, path) for one in ("accepted", "refused")]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransientError("the broker does not take 'it': refused; check ROBOCO_BROKER_URL"), "check ROBOCO_BROKER_URL"),
        (TransientError("redis refuses a right: load deploy/redis-users.acl"), "load deploy/redis-users.acl"),
    ],
)
def test_a_silent_server_hides_its_own_part_only_and_is_named(rest: RestWorld, error: Exception, expected: str) -> None:
    def fail() -> Any:
        raise error

    rest.orchestrator._operations._queues = fail
    answer = operate(rest, "/queues", status=503)
    assert expected in answer["detail"]
    assert answer["remedy"]
    assert operate(rest, "/rates")["rates"]
    assert operate(rest, "/workers")["pools"]
