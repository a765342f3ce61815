"""Faults at every port call of a run whose call a shop's Celery task answers: an irreversible one is sent once."""

from collections import Counter
from typing import Any

import pytest

from roboco.domain.ids import shop_task_id
from roboco.domain.paths import intent_path
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from tests.faults.enumerated import INJECTIONS, FaultedCall, places
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.shop_world import ShopWorld
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK
from tests.support.selection import in_parts


@in_parts
@pytest.mark.parametrize("effect", ["idempotent", "irreversible"])
@pytest.mark.parametrize("kind", sorted(INJECTIONS))
def test_a_fault_at_any_port_call_leads_to_one_result_for_each_call(kind: str, effect: str, part: int) -> None:
    failures = []
    for at in places(kind, part):
        came, failure = _run_with_fault(kind, at, effect)
        failures += [failure] if failure else []
        if not came:
            break
    assert not failures, "\n".join(failures[:10])
    assert at > 60


def _run_with_fault(kind: str, at: int, effect: str) -> tuple[bool, str]:
    world = ShopWorld(effect=effect, timeout=3600)
    calls = 0

    def watch(name: str, call: PortCall) -> Any:
        nonlocal calls
        calls += 1
        return call() if calls != at else INJECTIONS[kind](FaultedCall(world, name, call))

    world.watch = watch
    try:
        world.begin().run()
        _check(world, effect)
    except AssertionError as error:
        return calls >= at, f"{kind}@{at} {effect}: {error}".splitlines()[0]
    return calls >= at, ""


def _check(world: ShopWorld, effect: str) -> None:
    assert not [error for error in world.failures if not isinstance(error, TransientError)], world.failures
    assert [step.agent_name for step in world.history()] == ["user", "clerk", "tool_executor", "clerk"]
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")
    times = Counter(sent.message_id for sent in world.shop.sent)
    for call, result in zip(world.history()[1].calls, world.results(), strict=False):
        sent = times[shop_task_id(TASK, 1, call.id)]
        assert result.tool_call_id == call.id
        assert intent_path(TASK, call.id) in world.files.held
        assert sent <= 1 or effect != "irreversible", sent
        if result.is_error:
            assert effect == "irreversible", result.error
            assert "outcome unknown" in str(result.error)
            continue
        assert result.result == ["file"]
        assert sent >= 1
