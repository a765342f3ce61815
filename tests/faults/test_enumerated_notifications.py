"""Faults at every port call of a run with notifications: each target receives each status at least once, in order."""

from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.paths import notify_targets_path
from tests.faults.enumerated import INJECTIONS, FaultedCall, places
from tests.support.memory_ports.journeys import GRAPH, MANUAL
from tests.support.memory_ports.notifications import HOOK, SHOP, URL, deliver_all
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World
from tests.support.selection import in_parts

ENUMERATED = {"graph": GRAPH, "manual": MANUAL}
EXPECTED = {
    "graph": (["completed"], ["completed"]),
    "manual": (["cancelled"], ["user_turn", "user_turn", "user_turn", "cancelled"]),
}


@in_parts
@pytest.mark.parametrize("kind", INJECTIONS)
@pytest.mark.parametrize("name", ENUMERATED)
def test_a_fault_at_any_port_call_loses_no_notification(name: str, kind: str, part: int) -> None:
    """Repeated notifications with the same id count once."""
    shop, hook = EXPECTED[name]
    for at in places(kind, part):
        world, struck = run_with_fault(name, kind, at)
        assert world.notifier.statuses("shop.done") == shop, f"{kind}@{at}"
        assert world.notifier.statuses(URL)[-1:] == hook[-1:], f"{kind}@{at}"
        assert set(world.notifier.statuses(URL)) <= set(hook), f"{kind}@{at}"
        if not struck:
            break
    assert at > 50


def _path(call: Any) -> str:
    return str(call.args[0])


def run_with_fault(name: str, kind: str, at: int) -> tuple[World, bool]:
    """Return the world after a fault at this port call, and False if the run has fewer port calls.

    In the longer journey, only the calls from the first read of the targets on count.
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
