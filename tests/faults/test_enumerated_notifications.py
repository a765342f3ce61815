"""The same of those who are told of a task's statuses: in order, at least once each."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.paths import notify_targets_path
from tests.faults.enumerated import INJECTIONS, FaultedCall
from tests.support.memory_ports.journeys import GRAPH, MANUAL
from tests.support.memory_ports.notifications import HOOK, SHOP, URL, deliver_all
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World

ENUMERATED = {"graph": GRAPH, "manual": MANUAL}
EXPECTED = {
    "graph": (["completed"], ["completed"]),
    "manual": (["cancelled"], ["user_turn", "user_turn", "user_turn", "cancelled"]),
}


@pytest.mark.parametrize("kind", INJECTIONS)
@pytest.mark.parametrize("name", ENUMERATED)
def test_a_fault_at_any_port_call_loses_no_notification(name: str, kind: str) -> None:
    """One fault of each kind at every port call: what the same id says twice counts once."""
    shop, hook = EXPECTED[name]
    at, struck = 1, True
    while struck:
        world, struck = run_with_fault(name, kind, at)
        assert world.notifier.statuses("shop.done") == shop, f"{kind}@{at}"
        assert world.notifier.statuses(URL)[-1:] == hook[-1:], f"{kind}@{at}"
        assert set(world.notifier.statuses(URL)) <= set(hook), f"{kind}@{at}"
        at += 1
    assert at > 50


def _path(call: Any) -> str:
    return str(call.args[0])


def run_with_fault(name: str, kind: str, at: int) -> tuple[World, bool]:
    """The world after something went wrong at this port call, and whether there was so late a one.

    Of the longer journey only the calls count that are made once it was looked up who is told.
    """
    calls = 0

    def watch(port: str, call: PortCall) -> Any:
        nonlocal calls
        calls += calls > 0 or name == "graph" or (port == "files.get" and _path(call) == notify_targets_path(TASK))
        return INJECTIONS[kind](FaultedCall(world, port, call)) if calls == at else call()

    world = ENUMERATED[name].world(watch)
    replace(ENUMERATED[name], options={"notify": [SHOP, HOOK]}).run(world)
    deliver_all(world)
    return world, calls >= at
