"""Erased tasks: nothing of them remains, and nothing that arrives late revives them."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.history.lineage import Retry
from roboco.domain.ids import sub_task_id
from roboco.domain.paths import erasure_path, forks_path, push_receivers_path, tombstone_path
from roboco.engine.accept.fork import retry_task
from roboco.engine.operate.erase import LATE_CHECKS
from roboco.errors import AlreadyEnded, Erased, NotFound, StateConflict, TransientError
from tests.support.memory_ports.journeys import FAILING, GRAPH, MANUAL
from tests.support.memory_ports.watch import Crash, Fault, make_call
from tests.support.memory_ports.world import TASK, world_parts
from tests.support.selection import PARTS, in_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.coordinate.test_delegate import script as delegating
from tests.unit.engine.coordinate.test_delegate import team as delegating_team
from tests.unit.engine.removal.object_world import ObjectWorld, at_rest


def erase(world: ObjectWorld, **fields: Any) -> None:
    """Erase the task, until its receipt is finished."""
    world.erase(**fields)
    world.finish_erasure()


def test_nothing_of_an_erased_task_remains_but_its_receipt() -> None:
    world = at_rest(GRAPH)
    world.files.put(push_receivers_path(TASK), b"{}")
    files = [path for path in world.files.held if path.startswith(f"{TASK}/")]
    size = sum(len(world.files.held[path]) for path in files)
    world.engine.tasks.dead_letters.add(dead_letter_of_lost_work("turn", TASK, "a", "lost", 3, world.engine.now()))
    world.engine.tasks.dead_letters.add(dead_letter_of_lost_work("turn", "other", "a", "lost", 3, world.engine.now()))
    erase(world, by="key_1", reason="asked by the user")
    assert world.traces() == []
    assert [letter.task_id for letter in world.engine.tasks.dead_letters.entries()] == ["other"]
    receipt = world.receipt()
    assert (receipt.status, receipt.by, receipt.reason) == ("erased", "key_1", "asked by the user")
    assert (receipt.files, receipt.bytes, receipt.dead_letters) == (len(files), size, 1)
    assert receipt.kinds["history"] == 1
    assert "go" not in world.files.held[tombstone_path(TASK)].decode().split('"')


def test_a_repeated_request_returns_the_same_receipt() -> None:
    world = at_rest(GRAPH)
    erase(world, by="one")
    assert world.erase(by="two") == world.receipt()
    assert world.receipt().by == "one"


def test_an_open_task_is_erased_only_if_it_may_be_stopped() -> None:
    world = at_rest(MANUAL)
    with pytest.raises(StateConflict, match="has not ended"):
        world.erase()
    erase(world, stop=True)
    assert world.traces() == []


def test_messages_controls_forks_and_notices_of_an_erased_task_are_refused() -> None:
    world = at_rest(GRAPH)
    erase(world)
    acts: list[Callable[[], object]] = [lambda: world.send("more"), world.stop, world.pause, lambda: fork_task(world)]
    for act in acts:
        with pytest.raises((Erased, AlreadyEnded)):
            act()
    assert world.traces() == []


def test_a_late_worker_commits_nothing_and_its_file_is_removed() -> None:
    world = ObjectWorld(world_parts(GRAPH.script))
    world.submit(GRAPH.team, at_once=True)
    turn = world.dispatcher.queue.popleft()

    def erase_during_the_append(name: str, call: Any) -> Any:
        if name == "histories.append":
            world.watch = make_call
            world.erase(stop=True)
            world.finish_erasure(seconds=30.0)
        return call()

    world.watch = erase_during_the_append
    world.deliver(turn)
    assert any(path.startswith(f"{TASK}/history/") for path in world.files.held), "the late file was stored"
    assert TASK not in world.server.held.tasks
    world.sweep_until(lambda: world.traces() == [], LATE_CHECKS[0])


def test_sub_tasks_are_erased_with_their_task() -> None:
    world = ObjectWorld(world_parts(delegating))
    world.submit(delegating_team())
    children = []
    world.settle()
    for call in world.history()[1].calls:
        children.append(sub_task_id(TASK, call.id))
        world.settle(children[-1])
    world.settle()
    erase(world)
    assert world.receipt().sub_tasks == children
    world.sweep_until(lambda: all(world.traces(child) == [] for child in children))
    assert all(world.receipt(child).status == "erased" for child in children)
    assert world.traces() == []


@pytest.mark.parametrize("choice", ["keep", "erase"])
def test_forks_are_kept_or_erased_as_the_request_says(choice: str) -> None:
    world = at_rest(GRAPH)
    fork_task(world)
    world.settle(FORK)
    assert f"{forks_path(TASK)}{FORK}" in world.files.held
    with pytest.raises(StateConflict, match=FORK):
        world.erase(forks="refuse")
    erase(world, forks=choice)
    assert world.receipt().forks == [FORK]
    if choice == "erase":
        world.sweep_until(lambda: world.traces(FORK) == [])
    else:
        assert world.history(FORK)[0].text == "go"


@in_parts
def test_an_erasure_continues_after_each_crash_and_each_failed_call(part: int) -> None:
    for failure, after in ((Crash(), True), (TransientError("no answer"), False)):
        number = 1 + part
        while _erase_with_a_failure(number, failure, after):
            number += PARTS
        assert number > 30


def _erase_with_a_failure(number: int, failure: BaseException, after: bool) -> bool:
    """Erase a task with a failure at this port call. Return False if it makes fewer calls."""
    world = at_rest(GRAPH)
    files = len([path for path in world.files.held if path.startswith(f"{TASK}/")])
    world.erase()
    world.watch = fault = Fault(number, failure, after)
    for _ in range(20):
        world.drain()
        world.sweep()
        if tombstone_path(TASK) in world.files.held and world.receipt().finished_at is not None:
            break
        world.clock.move(31.0)
    where = (number, failure, after)
    assert world.receipt().finished_at is not None, where
    assert world.receipt().files == files, where
    world.watch = make_call
    world.sweep_until(lambda: erasure_path(TASK) not in world.files.held, LATE_CHECKS[-1] / 10)
    assert world.traces() == [], where
    return fault.struck


def test_an_accepted_erasure_is_carried_out_at_each_moment_of_a_retry() -> None:
    for number in range(1, 40):
        world = at_rest(FAILING)

        def erase_meanwhile(world: ObjectWorld = world) -> None:
            world.watch = make_call
            with suppress(StateConflict, TransientError):
                world.erase()

        world.watch = Fault(number, erase_meanwhile)
        with suppress(Erased, NotFound):
            retry_task(world.process(), TASK, Retry())
        world.watch = make_call
        if erasure_path(TASK) in world.files.held:
            world.finish_erasure()
            assert world.traces() == []
        else:
            assert world.history()
