"""Slow reads, controls and downloads of one tenant leave those of the others alone."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import pytest

from roboco.gateway.calls import CallLine, LinePart
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from tests.support.gateway_rest import RestWorld

PARTS = {"read": 80, "control": 40, "file": 40}
"""The calls of one tenant that each of these lines holds. The whole line holds more; reads and controls have less."""


def request_of(kind: str) -> Callable[[RestWorld, str], Any]:
    """Return a request of a kind, for a task of its caller."""
    return {
        "read": lambda rest, caller: rest.get("/v1/tasks/t1/pending", caller),
        "control": lambda rest, caller: rest.post("/v1/tasks/t1/pause", {}, caller),
        "file": lambda rest, caller: rest.get("/v1/tasks/t1/files/a.txt", caller),
    }[kind]


@pytest.mark.parametrize("kind", PARTS)
def test_slow_calls_of_one_tenant_do_not_refuse_those_of_others(
    rest: RestWorld, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.app.state.gateway.calls.reads = CallLine("read", 24, 128, 60.0, LinePart(16, 64))
    rest.app.state.gateway.calls.controls = CallLine("control", 12, 64, 60.0, LinePart(8, 32))
    for caller in ("acme", "other"):
        rest.run(f"{caller}:t1", caller=caller, conversation=True)
        rest.client.put("/v1/tasks/t1/files/a.txt", content=b"x", headers={"authorization": caller})
    go, find_task, send = threading.Event(), Gateway.find_task, request_of(kind)

    def find_slowly(gateway: Gateway, principal: Principal, task_id: str) -> Any:
        assert principal.tenant != "acme" or go.wait(60)
        return find_task(gateway, principal, task_id)

    monkeypatch.setattr(Gateway, "find_task", find_slowly)
    requests = PARTS[kind] + 10
    with ThreadPoolExecutor(requests) as clients:
        slow: list[Future[Any]] = [clients.submit(send, rest, "acme") for _ in range(requests)]
        try:
            refused = next(as_completed(slow, 30)).result()
            assert refused.status_code == 503, refused.text
            assert f"too many {kind} calls of this caller, or of its tenant" in refused.json()["detail"]
            answer = send(rest, "other")
            assert answer.status_code < 300, answer.text
        finally:
            go.set()
        served = [one for one in slow if one.result().status_code < 300]
    assert len(served) == PARTS[kind]
