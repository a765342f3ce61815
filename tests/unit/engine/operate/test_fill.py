"""fill: all coordinators enter the tasks of the workspace in the schedule, page by page."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from roboco.domain.ids import SHARDS, shard_of
from roboco.domain.paths import ENTER_PREFIX, NOTIFY_PREFIX, RESTART_PREFIX, open_marker_path
from roboco.engine.operate import fill
from roboco.engine.operate.fill import CLAIM_SECONDS, REFILL_INTERVAL, ROUND_DELAY, FillStep, fill_page
from roboco.errors import TransientError
from tests.support.memory_ports import schedule as memory_schedule
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.sweeping import fill_schedule
from tests.support.memory_ports.watch import Crash, crash_at, make_call
from tests.support.memory_ports.world import World

PAGE_SIZE = 10
TASKS = [f"task{number:02}" for number in range(3 * PAGE_SIZE + 5)]
PAGES = 7
"""Pages of a fill with these tasks: four of open tasks, one of notifications, and the end."""


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill, "PAGE_SIZE", PAGE_SIZE)
    monkeypatch.setattr(memory_schedule, "SCAN_SIZE", 2)


def open_tasks(names: Sequence[str] = TASKS) -> World:
    """Return a world with the markers of open tasks, in which Redis is empty."""
    world = MANUAL.world()
    for name in names:
        world.files.held[open_marker_path(name)] = b""
    world.server.wipe()
    return world


def scheduled(world: World, prefix: str = "") -> set[str]:
    names = (name.removeprefix(prefix) for name in world.server.held.schedule if name.startswith(prefix))
    return {name for name in names if "/" not in name}


@pytest.mark.parametrize("page", [0, PAGES // 2, PAGES - 1])
@pytest.mark.parametrize(
    "where", ["schedule.claim_fill", "files.names_after", "schedule.enter", "schedule.advance_fill"]
)
def test_the_page_of_a_dead_coordinator_is_repeated_after_its_claim(where: str, page: int) -> None:
    world = open_tasks()
    for _ in range(page):
        fill_page(world.engine)

    world.watch = crash_at(where, after=True)
    try:
        fill_page(world.engine)
    except Crash:
        if where != "schedule.advance_fill":
            world.watch = make_call
            assert not fill_page(world.process()).moved, "its claim lasts"
    world.watch = make_call
    world.clock.move(CLAIM_SECONDS)
    fill_schedule(world.process())
    assert world.engine.tasks.schedule.is_intact()
    assert scheduled(world) == set(TASKS)


def test_a_refill_enters_only_missing_tasks_and_lists_no_inbox() -> None:
    world = open_tasks()
    fill_schedule(world.engine)
    world.server.held.schedule = {TASKS[0]: 5.0, f"{NOTIFY_PREFIX}x": 7.0}
    world.clock.move(REFILL_INTERVAL)
    requests = Counter[str]()

    def count(name: str, call: Any) -> Any:
        requests[name] += 1
        return call()

    world.watch = count
    fill_schedule(world.engine)
    assert scheduled(world) == set(TASKS)
    assert world.server.held.schedule[TASKS[0]] == 5.0
    assert not scheduled(world, ENTER_PREFIX)
    assert {name: number for name, number in requests.items() if name.startswith("files")} == {"files.names_after": 6}


def test_every_known_task_of_a_restarted_redis_gets_new_logs_before_any_pass() -> None:
    """Those that were closed in the moment that Redis has lost have no marker."""
    world = open_tasks(TASKS[:5])
    fill_schedule(world.engine)
    world.server.held.schedule = dict.fromkeys(TASKS[3:], 0.0)
    world.server.restore(world.server.copy())
    steps = list[FillStep]()
    while scheduled(world, RESTART_PREFIX) != set(TASKS[3:]):
        steps.append(fill_page(world.engine))
        assert steps[-1].blocks_passes
    while fill_page(world.engine).blocks_passes:
        pass
    assert len(steps) > SHARDS / 2, "a page is a part of a shard"
    fill_schedule(world.engine)
    assert scheduled(world, RESTART_PREFIX) == set(TASKS)


@pytest.mark.parametrize("loss", ["wiped", "restarted"])
def test_a_shard_that_does_not_answer_delays_no_other(loss: str) -> None:
    world = open_tasks()
    if loss == "restarted":
        fill_schedule(world.engine)
        world.server.held.schedule = dict.fromkeys(TASKS, 0.0)
        world.server.restore(world.server.copy())
    pages = Counter(
        shard for start in range(0, 30, PAGE_SIZE) for shard in set(map(shard_of, TASKS[start:][:PAGE_SIZE]))
    )
    silent = pages.most_common(1)[0][0]
    assert pages[silent] > 1
    requests = Counter[str]()

    def hang(name: str, call: Any) -> Any:
        if name == "schedule.scan" and call.args[0] == silent:
            requests[name] += 1
            raise TransientError("time-out")
        if name == "schedule.enter":
            requests[name] += silent in map(shard_of, call.args[0])
            rest = [one for one in call.args[0] if shard_of(one) != silent]
            failed = len(rest) < len(call.args[0])
            call.func(rest, *call.args[1:], **call.keywords)
            return frozenset({silent}) if failed else frozenset()
        return call()

    world.watch = hang
    fill_schedule(world.engine)
    prefix = ENTER_PREFIX if loss == "wiped" else RESTART_PREFIX
    assert scheduled(world, prefix) == {name for name in TASKS if shard_of(name) != silent}
    once = {"schedule.enter": 2} if loss == "wiped" else {"schedule.scan": 1}
    assert +requests == once, "after its first page, a round leaves the shard out"
    assert not world.engine.tasks.schedule.is_intact()
    assert world.engine.tasks.schedule.recovered_instance(TASKS[0]) is None
    fill_schedule(world.engine)
    assert +requests == once, "the next round begins later"
    world.watch = make_call
    world.clock.move(ROUND_DELAY)
    assert not fill_page(world.engine).blocks_passes
    fill_schedule(world.engine)
    assert scheduled(world, prefix) == set(TASKS)
    assert world.engine.tasks.schedule.is_intact()
