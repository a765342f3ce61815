"""Requests to erase a task: which one counts, when it begins, and what it removes of an archived task."""

from dataclasses import replace
from datetime import timedelta

import pytest

from roboco.domain.ids import sub_task_id
from roboco.domain.paths import (
    CLOSED,
    closing_marker,
    erasure_path,
    notify_marker_path,
    open_marker_path,
    tombstone_path,
)
from roboco.engine.operate.erase import GIVEN_UP_DELAY, STOP_TIMEOUT, erase_task
from roboco.errors import StateConflict
from tests.support.memory_ports.archives import MemoryArchives
from tests.support.memory_ports.journeys import GRAPH
from tests.support.memory_ports.watch import refusing
from tests.support.memory_ports.world import TASK, world_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.coordinate.test_delegate import script as delegating
from tests.unit.engine.coordinate.test_delegate import team as delegating_team
from tests.unit.engine.removal.object_world import ObjectWorld

OLD, NEW = "s3://old/roboco", "s3://new/roboco"


def ended_task() -> ObjectWorld:
    world = ObjectWorld(world_parts(GRAPH.script))
    world.submit(GRAPH.team)
    world.settle()
    return world


def with_archives(world: ObjectWorld, *named: str) -> MemoryArchives:
    """Give the world archives of which these addresses are named."""
    archives = MemoryArchives(named=named)
    world.engine = replace(world.engine, archive=archives.open)
    return archives


def finish(world: ObjectWorld, task_id: str = TASK, seconds: float = 5.0) -> None:
    """Sweep until the receipt is finished."""
    world.sweep_until(
        lambda: tombstone_path(task_id) in world.files.held and world.receipt(task_id).finished_at is not None, seconds
    )


def archived_task() -> ObjectWorld:
    world = ended_task()
    world.erase(archive=OLD, by="retention")
    finish(world)
    return world


def test_a_corrected_address_replaces_the_one_of_a_pending_archive() -> None:
    world = ended_task()
    world.watch = refusing("archives.put_from")
    world.erase(archive=OLD, by="retention")
    for _ in range(3):
        world.clock.move(31)
        world.sweep()
    assert "it is not archived yet" in world.receipt().problem
    world.watch = lambda name, call: call()
    world.erase(archive=NEW, storage_class="GLACIER_IR", by="retention")
    finish(world, seconds=31)
    assert world.receipt().archive == f"{NEW}/{TASK}.tar"
    assert world.archives.storage_classes == {f"{NEW}/{TASK}.tar": "GLACIER_IR"}
    assert world.receipt().problem == ""


def test_a_task_stays_if_no_rule_names_its_archive_any_more() -> None:
    world = ended_task()
    before = {path: data for path, data in world.files.held.items() if TASK in path}
    with_archives(world)
    world.erase(archive=OLD, by="retention")
    world.sweep_until(lambda: erasure_path(TASK) not in world.files.held)
    assert {path: data for path, data in world.files.held.items() if TASK in path} == before
    fork_task(world)


def test_an_erasure_replaces_a_pending_archive_and_is_that_of_its_caller() -> None:
    world = ended_task()
    world.watch = refusing("archives.put_from")
    world.erase(archive=OLD, by="retention")
    world.sweep()
    world.erase(by="operator", reason="request 17")
    world.watch = lambda name, call: call()
    finish(world, seconds=31)
    assert (world.receipt().status, world.receipt().by, world.receipt().reason) == ("erased", "operator", "request 17")
    assert world.archives.held == {}


def test_a_weaker_request_changes_nothing() -> None:
    world = ended_task()
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="erase", stop=True)
    stored = world.files.held[erasure_path(TASK)]
    world.erase(forks="keep")
    world.erase(archive=OLD, forks="keep")
    assert world.files.held[erasure_path(TASK)] == stored


def test_a_stronger_request_keeps_what_the_first_one_removes() -> None:
    world = ended_task()
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="keep", stop=True)
    world.erase(forks="erase")
    finish(world)
    finish(world, FORK)
    assert world.receipt().forks_erased


def test_an_erasure_of_an_archived_task_removes_its_archive_and_says_so() -> None:
    world = archived_task()
    size = world.receipt().archived_bytes
    assert world.erase(by="operator").status == "erasing"
    world.sweep_until(lambda: world.receipt().status == "erased")
    receipt = world.receipt()
    assert (receipt.files, receipt.bytes, receipt.kinds, receipt.archive) == (1, size, {"archive": 1}, "")


def test_sub_tasks_of_an_archived_task_are_erased_with_it() -> None:
    world = ObjectWorld(world_parts(delegating))
    world.submit(delegating_team())
    world.settle()
    children = [sub_task_id(TASK, call.id) for call in world.history()[1].calls]
    for child in children:
        world.settle(child)
    world.settle()
    world.erase(archive=OLD, forks="keep")
    for task_id in (TASK, *children):
        finish(world, task_id)
    assert len(world.archives.held) == 1 + len(children)
    world.erase()
    world.sweep_until(lambda: world.archives.held == {})
    assert {world.receipt(task_id).status for task_id in (TASK, *children)} == {"erased"}


def test_forks_of_an_archived_task_must_be_chosen() -> None:
    world = ended_task()
    fork_task(world)
    world.settle(FORK)
    world.erase(archive=OLD, forks="keep")
    finish(world)
    with pytest.raises(StateConflict, match=FORK):
        world.erase(forks="refuse")
    world.erase(forks="erase")
    finish(world, FORK)


def test_an_archive_that_cannot_be_removed_is_named_and_removed_later() -> None:
    world = archived_task()
    archives = with_archives(world)
    archives.held = world.archives.held
    world.erase()
    world.sweep_until(lambda: world.receipt().status == "erased")
    assert "is named by no rule" in world.receipt().problem
    assert world.receipt().archive == f"{OLD}/{TASK}.tar"
    archives.named = (OLD,)
    world.erase()
    world.sweep_until(lambda: archives.held == {})
    assert (world.receipt().problem, world.receipt().archive) == ("", "")


def test_a_broken_request_is_replaced_by_the_next_one() -> None:
    world = ended_task()
    world.files.held[erasure_path(TASK)] = b"{broken"
    world.engine.schedule.set(f"erase/{TASK}")
    world.sweep()
    assert tombstone_path(TASK) not in world.files.held
    world.erase()
    finish(world, seconds=31)


@pytest.mark.parametrize("marker", [CLOSED, closing_marker(7)])
def test_an_erasure_waits_until_the_task_is_closed(marker: bytes) -> None:
    world = ended_task()
    world.files.held[open_marker_path(TASK)] = marker
    world.engine.schedule.remove(TASK)
    world.erase()
    erase_task(world.engine, TASK)
    assert world.receipt().finished_at is None
    assert world.history()
    del world.files.held[open_marker_path(TASK)]
    world.clock.move(30)
    finish(world)
    assert world.traces() == []


def test_a_task_that_is_never_closed_is_erased_after_a_while() -> None:
    world = ended_task()
    world.files.held[open_marker_path(TASK)] = CLOSED
    world.erase()
    world.clock.move(STOP_TIMEOUT)
    erase_task(world.engine, TASK)
    assert world.receipt().status == "erased"


def test_receivers_of_an_ended_task_have_time_to_get_its_end() -> None:
    world = ended_task()
    world.files.held[notify_marker_path(TASK)] = b""
    world.erase()
    erase_task(world.engine, TASK)
    assert world.receipt().finished_at is None
    world.clock.move(STOP_TIMEOUT)
    erase_task(world.engine, TASK)
    assert world.traces() == []


def test_a_clock_of_a_client_that_is_ahead_delays_nothing() -> None:
    world = ended_task()
    world.files.held[notify_marker_path(TASK)] = b""
    world.erase(requested_at=world.engine.now() + timedelta(days=400))
    erase_task(world.engine, TASK)
    world.clock.move(STOP_TIMEOUT)
    erase_task(world.engine, TASK)
    assert world.receipt().status == "erased"
    world.sweep_until(lambda: erasure_path(TASK) not in world.files.held, GIVEN_UP_DELAY)


def test_a_process_carries_out_a_few_erasures_at_a_time() -> None:
    world = ended_task()
    world.erase()
    while world.engine.erasure_slots.acquire(blocking=False):
        pass
    world.sweep()
    assert tombstone_path(TASK) not in world.files.held
    world.engine.erasure_slots.release()
    finish(world, seconds=31)


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
