"""The REST route of usage: a tenant's own, or that of all tenants for operators."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.rest import usage
from tests.support.gateway_rest import CALLERS, RestWorld, rest_world


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield a gateway with a task of each of two tenants."""
    with rest_world(tmp_path) as started:
        rebuild_index(started.world.engine, 10)
        started.run("acme:t1")
        started.run("other:t2", caller="other")
        yield started


def report(rest: RestWorld, query: str, caller: str = "local") -> Any:
    """Return the JSON of a report."""
    answer = rest.get(f"/v1/usage?{query}", caller)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_operator_sees_all_tenants(rest: RestWorld) -> None:
    found = report(rest, "by=tenant,agent")
    assert [(row["tenant"], row["agent"], row["turns"]) for row in found["rows"]] == [
        ("acme", "writer", 1),
        ("other", "writer", 1),
    ]
    assert (found["complete"], found["tasks"], found["total"]["turns"]) == (True, 2, 2)
    assert found["total"]["tokens"] == sum(row["tokens"] for row in found["rows"]) > 0
    assert report(rest, "by=tenant&tenant=acme")["tasks"] == 1
    assert report(rest, "by=team&team=lab")["tasks"] == 0
    assert report(rest, "all_tasks=true")["tasks"] == 2


def test_a_tenant_sees_its_own_usage_only(rest: RestWorld) -> None:
    for caller in ("acme", "reader", "desk"):
        found = report(rest, "by=tenant", caller)
        assert [row["tenant"] for row in found["rows"]] == ["acme"]
        answer = rest.get("/v1/usage?by=tenant&tenant=other", caller)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_other_keys_and_wrong_queries_are_refused(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLERS, "wide", Principal("key:wide", None, frozenset({Scope.READ})))
    monkeypatch.setitem(CALLERS, "some", Principal("key:some", None, frozenset(Scope), frozenset({"desk"})))
    for caller, query, status, code in [
        *((caller, "", 403, "forbidden") for caller in ("none", "submitter", "wide", "some")),
        ("acme", "all_tasks=true", 403, "forbidden"),
        ("local", "by=week", 400, "invalid"),
        ("local", "since=yesterday", 422, "invalid"),
        ("local", "since=2026-02-02&until=2026-02-01", 400, "invalid"),
        ("local", "format=xml", 422, "invalid"),
        ("local", "tenants=acme", 422, "invalid"),
        ("local", "tenant=No%20Tenant", 400, "invalid"),
    ]:
        answer = rest.get(f"/v1/usage?{query}", caller)
        assert (answer.status_code, answer.json()["code"]) == (status, code), (caller, query, answer.text)


def test_a_report_that_takes_too_long_ends_with_503(rest: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "REPORT_SECONDS", -1)
    answer = rest.get("/v1/usage", "local")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "not complete after 2 tasks" in answer.json()["detail"]
