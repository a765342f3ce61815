"""Retries: a failed task continues in one new task, whatever crashes meanwhile, and stays as it has ended."""

from contextlib import suppress
from typing import Any

import pytest

from roboco.domain.history.lineage import Retry
from roboco.domain.ids import retry_id
from roboco.domain.notification import NotifyTarget
from roboco.domain.paths import open_marker_path, summary_path
from roboco.domain.push_notification import PushConfig
from roboco.domain.status import TaskStatus
from roboco.engine import notifications as notify
from roboco.engine.accept.fork import retry_task
from roboco.errors import Erased, ModelError, NotFound, StateConflict, TransientError
from roboco.ports.model import Request
from tests.support.memory_ports.controlled import DELEGATING, RETRIED, children_of
from tests.support.memory_ports.journeys import SEQUENTIAL, Journey, assert_whole, member, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.notifications import SHOP, deliver_all
from tests.support.memory_ports.watch import Crash, Fault, make_call
from tests.support.memory_ports.world import TASK, World, team_of

NEW = retry_id(TASK, 3)
EXPECTED = ["user", "first", "second", "orchestrator", "second"]


def failed_world(journey: Journey = RETRIED, **options: Any) -> World:
    """Return a world whose task has failed and is closed."""
    world = journey.at_rest(at_once=True, **options)
    assert world.summary().status is TaskStatus.FAILED
    return world


def agents_of(world: World, task_id: str = TASK) -> list[str]:
    return [step.agent_name for step in world.history(task_id)]


def assert_retried(world: World, where: str = "") -> None:
    """Assert that the task has failed, and that its one retry has completed and is closed."""
    assert agents_of(world) == EXPECTED[:3], where
    assert agents_of(world, NEW) == EXPECTED, where
    old, new = world.summary(), world.summary(NEW)
    assert (old.status, old.steps, old.retry_of, old.retried_as) == (TaskStatus.FAILED, 3, "", NEW), where
    assert (new.status, new.steps, new.retry_of, new.retried_as) == (TaskStatus.COMPLETED, 5, TASK, ""), where
    assert open_marker_path(NEW) not in world.files.held, where
    assert not [error for error in world.failures if not isinstance(error, TransientError)], where
    listed = {task_id: entry.status for task_id, entry in world.server.held.entries.items()}
    assert listed == {TASK: TaskStatus.FAILED, NEW: TaskStatus.COMPLETED}, where
    assert_whole(world, where)
    assert_whole(world, where, NEW)


def test_each_end_has_one_retry_of_which_the_receivers_hear() -> None:
    broken = [True, True]

    def script(request: Request) -> ScriptedReply:
        if broken and broken.pop():
            return ScriptedReply(error=ModelError("model", "no", retryable=False))
        return says("well")

    canvas = {"celery": {"task": "canvas"}, "continuation": "{}"}
    world = failed_world(Journey(team_of(agents=[member("one")]), script), notify=[SHOP, canvas])
    first = world.retry()
    world.settle(first)
    assert world.summary(first).status is TaskStatus.FAILED
    assert world.retry() == first  # a repetition, which arrives late
    second = world.retry(task_id=first)
    world.settle(second)
    assert (world.summary(second).status, world.summary(second).retry_of) == (TaskStatus.COMPLETED, first)
    deliver_all(world)
    heard = [(notice.task_id, notice.status) for label, notice in world.notifier.deliveries if label == "shop.done"]
    assert heard == [(TASK, "failed"), (first, "failed"), (second, "completed")]
    assert [notice.task_id for label, notice in world.notifier.deliveries if label == "canvas"] == [TASK]


def test_the_push_receivers_of_a_client_hear_nothing_of_a_retry() -> None:
    world = failed_world(notify=[])
    push = PushConfig(id="a", task_id="t", context_id="c")
    notify.set_push_receiver(world.engine, TASK, NotifyTarget(webhook="https://push.example", push=push))
    world.settle(world.retry())
    deliver_all(world)
    assert [notice.task_id for _, notice in world.notifier.deliveries] == [TASK]


def calls_of_retry() -> list[str]:
    world = failed_world()
    world.watch = counting = Fault(10**9, Crash())
    world.retry()
    world.watch = make_call
    return counting.seen


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_retry_whose_client_dies_is_accepted_and_named_or_has_not_happened(after: bool) -> None:
    """The next retry, of another caller and for another reason, completes one that was begun."""
    outcomes = set()
    for number, name in enumerate(calls_of_retry(), 1):
        world, where = failed_world(), f"{number} {name}"
        world.watch = Fault(number, Crash(), after)
        with pytest.raises(Crash):
            retry_task(world.engine, TASK, Retry(reason="fixed"), "ann")
        world.watch = make_call
        world.engine = world.process()
        accepted = open_marker_path(NEW) in world.files.held
        outcomes.add(accepted)
        if accepted:
            assert world.summary().retried_as == NEW, where
        by = "ann"
        with suppress(StateConflict):
            retry_task(world.engine, TASK, Retry(reason="another"), "bob")
            by = "bob"
        world.settle(NEW)
        assert_retried(world, where)
        assert world.history(NEW)[3].metadata["by"] == by, where
    assert outcomes == {False, True}


def test_a_retry_from_an_earlier_step_is_refused_and_names_the_fork() -> None:
    world = failed_world()
    for step in (0, 2):
        with pytest.raises(StateConflict, match=rf"its last good one, and not from {step}; roboco fork task_1 --seq"):
            retry_task(world.engine, TASK, Retry(), from_step=step)
    assert retry_task(world.engine, TASK, Retry(), from_step=1)
    world.settle(NEW)
    assert_retried(world)


def test_only_a_failed_task_is_retried() -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(NotFound):
        world.retry()
    world.submit(SEQUENTIAL.team)
    with pytest.raises(StateConflict, match="has not failed, it is queued; there is nothing to retry"):
        world.retry()
    world.settle()
    with pytest.raises(StateConflict, match="it is completed; fork it"):
        world.retry()


def test_a_sub_task_is_not_retried_because_its_parent_has_the_result() -> None:
    def script(request: Request) -> ScriptedReply:
        if speaker(request) != "lead":
            return ScriptedReply(error=ModelError("model", "no", retryable=False))
        return DELEGATING.script(request)

    world = Journey(DELEGATING.team, script).world()
    world.submit(DELEGATING.team)
    world.settle()
    child = children_of(world)[0]
    assert world.summary(child).status is TaskStatus.FAILED
    with pytest.raises(StateConflict, match="is a sub-task, and task 'task_1' has its result already"):
        world.retry(task_id=child)


def test_a_task_that_is_erased_meanwhile_is_not_retried() -> None:
    """Its summary is not written again."""
    world = failed_world()

    def erase() -> None:
        for path in [path for path in world.files.held if path.startswith(f"{TASK}/")]:
            del world.files.held[path]
        del world.histories.held[TASK]

    calls = calls_of_retry()
    world.watch = Fault(calls.index("files.replace") + 1, erase)
    with pytest.raises((Erased, NotFound, TransientError)):
        retry_task(world.engine, TASK, Retry())
    assert summary_path(TASK) not in world.files.held
    assert open_marker_path(NEW) not in world.files.held
