"""Answers of a gateway that are lost after it has accepted a request: the retry has no second effect."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx2
import pytest

from roboco.lab.servers.gate import Gate
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

TEAM = {"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]}
_numbers = count()


class LossyGateways:
    """Two gateways, one of them behind a proxy that can lose answers."""

    def __init__(self, gate: Gate, other: GatewayProcess) -> None:
        self._gate = gate
        self._lossy = f"http://127.0.0.1:{gate.port}"
        self._other = other.url

    def lose_answer(self, path: str, body: Any, **headers: str) -> None:
        """Send a request whose answer is lost once the gateway has sent it."""
        held = self._gate.hold(f"POST {path} ".encode(), answer=True)
        with ThreadPoolExecutor(1) as thread:
            request = thread.submit(httpx2.post, f"{self._lossy}{path}", json=body, headers=headers, timeout=30)
            assert held.reached.wait(60), "the gateway has answered"
            held.drop()
            with pytest.raises(httpx2.TransportError):
                request.result(60)

    def post(self, path: str, body: Any, **headers: str) -> list[Any]:
        """Send the request to both gateways, and return their responses."""
        return [
            httpx2.post(f"{url}{path}", json=body, headers=headers, timeout=30) for url in (self._lossy, self._other)
        ]

    def get(self, path: str) -> Any:
        """Return the body of the response to GET."""
        return httpx2.get(f"{self._other}{path}", timeout=30).raise_for_status().json()

    def waiting_task(self, title: str) -> str:
        """Return the path of a new conversation, which waits for its user."""
        body = {"team": TEAM, "prompt": "hello", "conversation": True, "title": title}
        path = str(self.post("/v1/tasks", body, **new_key())[0].headers["location"])
        assert self.get(f"{path}/result?wait=20")["status"] == "user_turn"
        return path


def new_key() -> dict[str, str]:
    """Return the header of a request that is not a repetition."""
    return {"Idempotency-Key": f"lost-{next(_numbers)}"}


@pytest.fixture(scope="module")
def gateways(folder_stack: Stack) -> Iterator[LossyGateways]:
    with GatewayProcess(folder_stack) as first, GatewayProcess(folder_stack) as second, Gate(first.port) as gate:
        yield LossyGateways(gate, second)


def test_a_task_whose_answer_is_lost_is_created_once(gateways: LossyGateways) -> None:
    body, key = {"team": TEAM, "prompt": "hello", "title": "a lost creation"}, new_key()
    gateways.lose_answer("/v1/tasks", body, **key)
    gateways.lose_answer("/v1/tasks", body, **key)
    again = gateways.post("/v1/tasks", body, **key)
    assert [one.status_code for one in again] == [200, 200]
    [task_id] = {one.json()["task_id"] for one in again}
    assert gateways.get(f"/v1/tasks/{task_id}/result?wait=20")["status"] == "completed"
    steps = gateways.get(f"/v1/tasks/{task_id}/history")["steps"]
    assert [step["agent_name"] for step in steps] == ["user", "writer"]
    listed = gateways.get("/v1/tasks?text=a+lost+creation")["tasks"]
    assert [one["task_id"] for one in listed] == [task_id]
    refused = gateways.post("/v1/tasks", body | {"prompt": "another"}, **key)
    assert [one.status_code for one in refused] == [422, 422]


@pytest.mark.parametrize("control", ["messages", "interrupt"])
def test_a_message_whose_answer_is_lost_is_one_message(gateways: LossyGateways, control: str) -> None:
    path, key, body = gateways.waiting_task(f"a lost control: {control}"), new_key(), {"message": "more, please"}
    gateways.lose_answer(f"{path}/{control}", body, **key)
    again = gateways.post(f"{path}/{control}?wait=20", body, **key)
    assert [one.status_code for one in again] == [202, 202]
    assert {one.json()["applied_at_seq"] for one in again} == {2}
    assert gateways.get(f"{path}/result?wait=20")["status"] == "user_turn"
    agents = [step["agent_name"] for step in gateways.get(f"{path}/history")["steps"]]
    assert agents == ["user", "writer", "user", "writer"]
    stopped = gateways.post(f"{path}/stop?wait=20", {}, **new_key())
    assert [one.status_code for one in stopped] == [202, 202]
    late = gateways.post(f"{path}/{control}?wait=20", body, **key)
    assert [one.json()["applied_at_seq"] for one in late] == [2, 2], "the key counts after the end, too"
