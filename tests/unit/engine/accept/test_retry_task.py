"""Retries: a failed task continues in one new task, whatever crashes meanwhile, and stays as it has ended."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.history.lineage import Retry
from roboco.domain.history.step import verify_chain
from roboco.domain.ids import retry_id
from roboco.domain.paths import open_marker_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.engine.accept.retry_task import retry_task
from roboco.errors import Erased, ModelError, NotFound, StateConflict, TransientError, UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.controlled import DELEGATING, RETRIED, children_of
from tests.support.memory_ports.journeys import SEQUENTIAL, Journey, assert_whole, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.notifications import SHOP, deliver_all
from tests.support.memory_ports.watch import Crash, Fault, PortCall, make_call
from tests.support.memory_ports.world import TASK, World, team_of
from tests.unit.engine.test_accept import crash

NEW = retry_id(TASK, 3)
EXPECTED = ["user", "first", "second", "orchestrator", "second"]


def failed_world(journey: Journey = RETRIED, **options: Any) -> World:
    """Return a world whose task has failed and is closed."""
    world = journey.world()
    world.submit(journey.team, at_once=True, **options)
    world.settle()
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


def test_a_retry_continues_with_the_turn_that_had_failed() -> None:
    world = failed_world()
    before, summary = list(world.histories.lines(TASK)), world.summary()
    assert world.retry(by="ops", reason="the key is valid again") == NEW
    world.settle(NEW)
    assert_retried(world)
    assert list(world.histories.lines(TASK)) == before == list(world.histories.lines(NEW))[:3]
    assert world.summary() == summary.model_copy(update={"retried_as": NEW})
    assert verify_chain(world.histories.lines(NEW)) == 5
    retry = world.history(NEW)[3]
    assert (retry.text, retry.metadata["by"]) == ("retried: the key is valid again", "ops")
    assert (world.history(NEW)[4].text, world.history(NEW)[4].metadata["routing"]["rule"]) == ("second is well", "next")


def test_no_agent_sees_the_error_or_the_retry() -> None:
    world = failed_world()
    world.settle(world.retry())
    contents = [message["content"] for message in world.given.model.requests[-1].messages]
    assert contents == ["You are second.", "go", "[first] first is well"]


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


def calls_of_retry() -> list[str]:
    world = failed_world()
    world.watch = counting = Fault(10**9, crash)
    world.retry()
    world.watch = make_call
    return counting.seen


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_retry_whose_client_dies_is_accepted_and_named_or_has_not_happened(after: bool) -> None:
    """The next retry, of another caller and for another reason, completes one that was begun."""
    outcomes = set()
    for number, name in enumerate(calls_of_retry(), 1):
        world, where = failed_world(), f"{number} {name}"
        world.watch = Fault(number, crash, after)
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


def test_of_two_retries_at_the_same_time_the_first_counts_at_every_moment() -> None:
    for number, name in enumerate(calls_of_retry(), 1):
        world, refused = failed_world(), list[str]()

        def attempt(reason: str, by: str, world: World = world, refused: list[str] = refused) -> None:
            try:
                assert world.retry(reason, by=by) == NEW
            except StateConflict as error:
                refused.append(str(error))

        def other(world: World = world, attempt: Any = attempt) -> None:
            world.watch = make_call
            attempt("two", "bob")

        world.watch = Fault(number, other)
        attempt("one", "ann")
        world.watch = make_call
        world.settle(NEW)
        assert_retried(world, f"{number} {name}")
        winner = world.history(NEW)[3].metadata["by"]
        assert len(refused) == 1, f"{number} {name}"
        assert f"was retried by {winner} at" in refused[0]


def test_a_retry_of_a_task_that_is_being_closed_waits() -> None:
    world = RETRIED.world()
    errors: list[Exception] = []

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_index.put" and world.server.held.tasks[TASK].status is TaskStatus.FAILED and not errors:
            with pytest.raises(TransientError) as refused:
                retry_task(world.engine, TASK, Retry())
            errors.append(refused.value)
        return call()

    world.watch = watch
    world.submit(RETRIED.team)
    world.settle()
    assert "is not closed yet" in str(errors[0])
    assert not world.histories.held.get(NEW)
    world.watch = make_call
    world.settle(world.retry())
    assert_retried(world)


@pytest.mark.parametrize("forgotten", [False, True], ids=["emptied", "expired"])
def test_a_task_that_redis_does_not_have_any_more_is_retried(forgotten: bool) -> None:
    world = failed_world()
    if forgotten:
        world.clock.move(world.given.policy.retention + 1)
        world.settle(world.retry())
        assert_retried(world)
    else:
        world.retry()
        world.server.wipe()
        world.settle(NEW)
        assert agents_of(world, NEW) == EXPECTED


def test_a_retry_at_a_limit_needs_a_higher_one() -> None:
    journey = replace(SEQUENTIAL, team=team_of(agents=[member("a"), member("b")], limits={"max_steps": 2}))
    world = failed_world(journey)
    with pytest.raises(StateConflict, match=r"max_steps is 2; name a higher limit .* roboco retry task_1 --max-steps"):
        world.retry()
    with pytest.raises(StateConflict, match="max_steps is 4"):
        world.retry(max_steps=4)
    with pytest.raises(UsageError, match="'nobody'"):
        world.retry(agents={"nobody": {"max_steps": 5}})
    assert not world.histories.held.get(NEW)
    world.settle(world.retry(max_steps=50))
    assert world.summary(NEW).status is TaskStatus.COMPLETED
    assert world.summary(NEW).limit_overrides == {"max_steps": 50}


def test_limits_of_seconds_count_from_the_retry() -> None:
    def script(request: Request) -> ScriptedReply:
        if own_turns(request) == 0 and speaker(request) == "a":
            return ScriptedReply(("slow",), meanwhile=lambda: worlds[0].clock.move(12))
        return says("done")

    team = team_of(agents=[member("a"), member("b")], limits={"max_seconds": 10})
    worlds = [Journey(team, script).world()]
    worlds[0].submit(team, at_once=True)
    worlds[0].settle()
    assert "max_seconds is 10" in worlds[0].summary().reason
    worlds[0].clock.move(5000)
    new = worlds[0].retry()
    worlds[0].settle(new)
    assert worlds[0].summary(new).status is TaskStatus.COMPLETED


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


def test_a_loop_starts_anew_after_a_retry() -> None:
    def script(request: Request, world: World) -> ScriptedReply:
        return says("done") if world.summary().retried_as else says("", ("add", {"a": 1}))

    team = team_of(
        agents=[member("lead", tools=["add"])],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        limits={"max_repeats": 2},
    )
    world = failed_world(Journey(team, functions={"add": lambda args, context: 1}, live=script))
    assert world.history()[-1].error.code == "loop"  # type: ignore[union-attr]
    runs = len(world.given.toolbox.runs)
    new = world.retry()
    world.settle(new)
    assert world.summary(new).status is TaskStatus.COMPLETED
    assert len(world.given.toolbox.runs) == runs


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


def test_a_fork_that_has_the_id_of_the_retry_is_not_taken_for_it() -> None:
    world = failed_world()
    fork(world.engine, ForkRequest(TASK, NEW))
    with pytest.raises(StateConflict, match="other content already"):
        world.retry()
    assert world.summary().retried_as == ""
