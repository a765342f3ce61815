"""rebuild_index: the task index is rebuilt from the workspace, page by page."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.paths import summary_path
from roboco.domain.task_filter import TaskFilter
from roboco.domain.task_summary import entry_of
from roboco.engine.engine import Policy
from roboco.engine.operate import rebuild_index as module
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.errors import TransientError
from roboco.ports.task_index import Rebuild, TaskPage
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.task_index import MemoryTaskIndex
from tests.support.memory_ports.watch import Crash, Fault, PortCall, make_call
from tests.support.memory_ports.world import Given, World, world_parts
from tests.support.selection import PARTS, in_parts

RUN_TIME = 10.0
OPEN = ["open1", "open2"]
ENDED = ["end1", "end2", "end3"]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two tasks at a time, one after the other, so that the n-th port call is always the same."""
    monkeypatch.setattr(module, "PAGE_SIZE", 2)
    monkeypatch.setattr(module, "PARALLEL_READS", 1)
    monkeypatch.setattr(module, "MAX_LEFT_OUT", 2)


def filled_world(**policy: Any) -> World:
    """Return a world with tasks that wait and tasks that have ended, whose Redis is empty."""
    base = world_parts(SEQUENTIAL.script)
    defaults: dict[str, Any] = {"redelivery_delay": 10.0, "index_retention": 86_400.0}
    world = World(Given(base.model, base.toolbox, Policy(**defaults | policy)))
    for task_id in OPEN:
        world.submit(MANUAL.team, task_id=task_id)
        world.settle(task_id)
    for task_id in ENDED:
        world.submit(SEQUENTIAL.team, task_id=task_id)
        world.settle(task_id)
        world.clock.move(60)
    world.server.wipe()
    world.files.held["_open/stray name"] = b""
    return world


def page_of(world: World) -> TaskPage:
    """Return all entries of the index."""
    return MemoryTaskIndex(world.server, world.clock).page(TaskFilter(), "", 1000)


def rebuild(world: World) -> int:
    """Run one rebuild, after the lock of the last one."""
    world.clock.move(RUN_TIME + 1)
    return rebuild_index(world.engine, RUN_TIME)


def check_complete(world: World) -> None:
    """Check that the index holds the summary of each task."""
    page = page_of(world)
    assert page.complete
    expected = {task_id: entry_of(world.summary(task_id)) for task_id in [*OPEN, *ENDED]}
    assert {entry.task_id: entry.model_dump(exclude={"epoch"}) for entry in page.entries} == {
        task_id: entry.model_dump(exclude={"epoch"}) for task_id, entry in expected.items()
    }


def test_a_rebuild_reads_one_file_of_an_ended_task_and_two_of_an_open_one() -> None:
    world, calls = filled_world(), Counter[str]()

    def watch(name: str, call: PortCall) -> Any:
        calls[name] += 1
        return call()

    world.watch = watch
    rebuild(world)
    assert {name: count for name, count in calls.items() if name.startswith(("files.", "histories."))} == {
        "files.folders": 4,
        "files.get": len(ENDED) + 2 * len(OPEN),
    }


def test_the_rebuild_changes_no_newer_entry() -> None:
    world = filled_world()
    world.sweep()
    before = page_of(world).entries
    assert {entry.task_id for entry in before} == set(OPEN)
    rebuild(world)
    assert all(one in page_of(world).entries for one in before)
    check_complete(world)


def fault_count() -> int:
    """Return the number of port calls of a rebuild."""
    world = filled_world()
    world.watch = fault = Fault(0, lambda: None)
    rebuild(world)
    return len(fault.seen)


@in_parts
def test_a_rebuild_whose_worker_dies_anywhere_is_continued_by_another_one(part: int) -> None:
    for at in range(1 + part, fault_count() + 1, PARTS):
        world = filled_world()
        world.watch = Fault(at, Crash())
        with pytest.raises(Crash):
            rebuild(world)
        world.engine = world.process()
        rebuild(world)
        check_complete(world)


def test_a_broken_task_is_left_out_and_the_others_are_entered(caplog: pytest.LogCaptureFixture) -> None:
    world = filled_world()
    for path in [path for path in world.files.held if path.startswith("end2/")]:
        world.files.held[path] = b"torn"
    rebuild(world)
    assert {entry.task_id for entry in page_of(world).entries} == {*OPEN, "end1", "end3"}
    assert page_of(world).complete
    assert "task end2 is left out of the task index" in caplog.text


def failing(world: World, name: str, paths: set[str]) -> Counter[str]:
    """Let a call of the workspace fail for these paths, or for all if there are none. Count its failures."""
    failed = Counter[str]()

    def watch(called: str, call: PortCall) -> Any:
        path = call.args[0] if called == name else None  # type: ignore[attr-defined]  # a partial
        if path is not None and (not paths or path in paths):
            failed[path] += 1
            raise TransientError("S3 does not answer")
        return call()

    world.watch = watch
    return failed


def test_no_task_is_lost_if_the_workspace_fails_for_long() -> None:
    """After failed lists of the folders, the store answers them again, but refuses some files."""
    world = filled_world()
    for name in ("files.folders", "files.get"):
        failing(world, name, set())
        for _ in range(5):
            with pytest.raises(TransientError):
                rebuild(world)
            assert not page_of(world).complete
    failing(world, "files.get", {summary_path("end1")})
    rebuild(world)
    assert not page_of(world).complete
    world.watch = make_call
    rebuild(world)
    check_complete(world)


def test_old_ends_leave_the_index_and_do_not_return() -> None:
    world = filled_world(index_retention=3600)
    rebuild(world)
    check_complete(world)
    world.clock.move(3600)
    rebuild(world)
    assert {entry.task_id for entry in page_of(world).entries} == set(OPEN)
    world.server.wipe()
    rebuild(world)
    assert {entry.task_id for entry in page_of(world).entries} == set(OPEN)


def ended(world: World) -> set[str]:
    return {entry.task_id for entry in page_of(world).entries if entry.status.ended}


def test_the_index_never_exceeds_its_maximum_by_more_than_a_page() -> None:
    world, most = filled_world(max_indexed_ended=1), list[int]()

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "task_index.put":
            most.append(len(ended(world)))
        return answer

    world.watch = watch
    rebuild(world)
    assert max(most) <= 1 + module.PAGE_SIZE
    assert ended(world) == {"end3"}


def test_the_progress_keeps_what_a_later_release_has_added() -> None:
    """A worker of this release goes on beside it, and after a return to this release."""
    stored = Rebuild("r1", "instance", tasks_read=2).to_json()[:-1] + ', "pages": {"a": 1}}'
    read = Rebuild.from_json(stored)
    assert read.tasks_read == 2
    assert read.to_json() == stored
    assert '"pages": {"a": 1}' in replace(read, after="b").to_json()
