"""Requests to erase a task: which one counts, when it begins, and what it removes."""

from datetime import timedelta

import pytest

from roboco.domain.paths import (
    CLOSED,
    closing_marker,
    erasure_path,
    open_marker_path,
    tombstone_path,
)
from roboco.engine.operate.erase import STOP_TIMEOUT, erase_task
from tests.support.memory_ports.journeys import GRAPH
from tests.support.memory_ports.world import TASK, world_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.coordinate.test_delegate import script as delegating
from tests.unit.engine.coordinate.test_delegate import team as delegating_team
from tests.unit.engine.removal.object_world import ObjectWorld, at_rest


def test_a_weaker_request_changes_nothing() -> None:
    world = at_rest(GRAPH)
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="erase", stop=True)
    stored = world.files.held[erasure_path(TASK)]
    world.erase(forks="keep")
    assert world.files.held[erasure_path(TASK)] == stored


def test_a_stronger_request_keeps_what_the_first_one_removes() -> None:
    world = at_rest(GRAPH)
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="keep", stop=True)
    world.erase(forks="erase")
    world.finish_erasure()
    world.finish_erasure(FORK)
    assert world.receipt().forks_erased


@pytest.mark.parametrize("marker", [CLOSED, closing_marker(7)])
def test_an_erasure_waits_until_the_task_is_closed(marker: bytes) -> None:
    world = at_rest(GRAPH)
    world.files.held[open_marker_path(TASK)] = marker
    world.engine.tasks.schedule.remove(TASK)
    world.erase()
    erase_task(world.engine, TASK)
    assert world.receipt().finished_at is None
    assert world.history()
    del world.files.held[open_marker_path(TASK)]
    world.clock.move(30)
    world.finish_erasure()
    assert world.traces() == []


def test_a_process_carries_out_a_few_erasures_at_a_time() -> None:
    world = at_rest(GRAPH)
    world.erase()
    while world.engine.process.erasure_slots.acquire(blocking=False):
        pass
    world.sweep()
    assert tombstone_path(TASK) not in world.files.held
    world.engine.process.erasure_slots.release()
    world.finish_erasure(seconds=31)


def test_a_sub_task_that_starts_after_the_erasure_of_its_parent_is_erased() -> None:
    world = ObjectWorld(world_parts(delegating))
    world.submit(delegating_team())
    erased: list[str] = []

    def erase_before_the_sub_task(name: str, call: object) -> object:
        if name == "files.create" and "/team.json" in str(call.args) and TASK + "." in str(call.args) and not erased:  # type: ignore[attr-defined]
            erased.append(str(call.args[0]).partition("/")[0])  # type: ignore[attr-defined]
            world.watch = lambda name, call: call()
            world.erase(stop=True, requested_at=world.engine.now() - timedelta(seconds=STOP_TIMEOUT))
            erase_task(world.engine, TASK)
        return call()  # type: ignore[operator]

    world.watch = erase_before_the_sub_task
    world.drain()
    assert erased
    world.sweep_until(lambda: world.traces(erased[0]) == [], 30.0)
    assert world.receipt(erased[0]).status == "erased"
