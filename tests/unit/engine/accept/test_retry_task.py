"""Retries: a failed task continues under the same id, once, whatever crashes meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from roboco.domain.history.step import verify_chain
from roboco.domain.inbox.item import RetryRequest, Stop, UserMessage
from roboco.domain.paths import CLOSED, OPENED, applied_path, inbox_path, item_path, open_marker_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StepFinal
from roboco.domain.task_filter import TaskFilter
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.retry_task import retry_task
from roboco.engine.coordinate.advance import advance
from roboco.engine.coordinate.archive import close_task
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.errors import ModelError, NotFound, StateConflict, TransientError, UsageError
from roboco.ports.model import Request
from roboco.ports.workspace import VersionedFile
from tests.support.memory_ports.controlled import DELEGATING, RETRIED, children_of
from tests.support.memory_ports.journeys import SEQUENTIAL, Journey, assert_whole, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.notifications import SHOP, deliver_all
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Crash, Fault, PortCall, make_call
from tests.support.memory_ports.world import TASK, World, team_of
from tests.unit.engine.test_accept import crash

EXPECTED = ["user", "first", "second", "orchestrator", "second"]


def failed_world(journey: Journey = RETRIED, **options: Any) -> World:
    """Return a world whose task has failed and is closed."""
    world = journey.world()
    world.submit(journey.team, at_once=True, **options)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    return world


def agents_of(world: World) -> list[str]:
    return [step.agent_name for step in world.history()]


def assert_completed(world: World, where: str = "") -> None:
    """Assert that the task was retried once, has completed and is closed."""
    assert agents_of(world) == EXPECTED, where
    summary = world.summary()
    assert (summary.status, summary.retries, summary.steps) == (TaskStatus.COMPLETED, 1, 5), where
    assert open_marker_path(TASK) not in world.files.held, where
    assert not [error for error in world.failures if not isinstance(error, TransientError)], where
    entry = world.server.held.entries[TASK]
    assert (entry.status, entry.retries) == (TaskStatus.COMPLETED, 1), where
    assert_whole(world, where)


def test_a_retried_task_continues_with_the_turn_that_had_failed() -> None:
    world = failed_world()
    before = list(world.histories.lines(TASK))
    world.retry(by="ops", reason="the key is valid again")
    world.settle()
    assert_completed(world)
    assert list(world.histories.lines(TASK))[:3] == before
    assert verify_chain(world.histories.lines(TASK)) == 5
    retry = world.history()[3]
    assert (retry.text, retry.metadata["by"], retry.metadata["item_id"]) == (
        "retried: the key is valid again",
        "ops",
        "retry1",
    )
    assert stored_item(world.engine, TASK, "retry1").applied_at_seq == 3  # type: ignore[union-attr]
    assert (world.history()[4].text, world.history()[4].metadata["routing"]["rule"]) == ("second is well", "next")


def test_no_agent_sees_the_error_or_the_retry() -> None:
    world = failed_world()
    world.retry()
    world.settle()
    contents = [message["content"] for message in world.given.model.requests[-1].messages]
    assert contents == ["You are second.", "go", "[first] first is well"]


def test_a_task_may_fail_and_be_retried_again() -> None:
    broken = [True, True]

    def script(request: Request) -> ScriptedReply:
        if broken and broken.pop():
            return ScriptedReply(error=ModelError("model", "no", retryable=False))
        return says("well")

    world = failed_world(Journey(team_of(agents=[member("one")]), script), notify=[SHOP])
    world.retry("retry1")
    world.settle()
    assert (world.summary().status, world.summary().retries) == (TaskStatus.FAILED, 1)
    world.retry("retry1")  # a repetition, which arrives late
    world.settle()
    assert world.summary().retries == 1
    world.retry("retry2")
    world.settle()
    assert (world.summary().status, world.summary().retries) == (TaskStatus.COMPLETED, 2)
    deliver_all(world)
    sent = [(notice.status, notice.retries) for _, notice in world.notifier.deliveries]
    assert sent == [("failed", 0), ("failed", 1), ("completed", 2)]
    assert len({notice.notification_id for _, notice in world.notifier.deliveries}) == 3


def calls_of_retry() -> list[str]:
    world = failed_world()
    world.watch = counting = Fault(10**9, crash)
    world.retry()
    world.watch = make_call
    return counting.seen


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("wipes", [False, True], ids=["redis kept", "redis emptied"])
def test_a_retry_whose_client_dies_takes_effect_once_when_it_is_sent_again(after: bool, wipes: bool) -> None:
    for number, name in enumerate(calls_of_retry(), 1):
        world, where = failed_world(), f"{number} {name}"

        def strike(world: World = world) -> None:
            if wipes:
                world.server.wipe()
            raise Crash

        world.watch = Fault(number, strike, after)
        world.retry()
        world.watch = make_call
        world.settle_for(4)
        world.settle()
        assert_completed(world, where)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_retry_whose_client_dies_and_never_returns_is_whole_or_has_not_happened(after: bool) -> None:
    outcomes = set()
    for number, name in enumerate(calls_of_retry(), 1):
        world, where = failed_world(), f"{number} {name}"
        world.watch = Fault(number, crash, after)
        with pytest.raises(Crash):
            retry_task(world.engine, TASK, request_of("retry1", world))
        world.watch = make_call
        world.engine = world.process()
        world.settle_for(6)
        world.settle()
        outcomes.add(world.summary().status)
        if world.summary().status is TaskStatus.COMPLETED:
            assert_completed(world, where)
        else:
            assert agents_of(world) == EXPECTED[:3], where
    assert outcomes == {TaskStatus.FAILED, TaskStatus.COMPLETED}


def request_of(item_id: str, world: World, by: str | None = None) -> RetryRequest:
    return RetryRequest(item_id=item_id, created_at=world.engine.now(), by=by)


def test_of_two_retries_at_the_same_time_one_wins_at_every_moment() -> None:
    for number, name in enumerate(calls_of_retry(), 1):
        world, refused = failed_world(), list[str]()

        def attempt(item_id: str, by: str, world: World = world, refused: list[str] = refused) -> None:
            try:
                world.retry(item_id, by=by)
            except StateConflict as error:
                refused.append(str(error))

        def other(world: World = world, attempt: Callable[[str, str], None] = attempt) -> None:
            world.watch = make_call
            attempt("retry2", "bob")

        world.watch = Fault(number, other)
        attempt("retry1", "ann")
        world.watch = make_call
        world.settle()
        assert_completed(world, f"{number} {name}")
        winner = world.history()[3].metadata["by"]
        assert len(refused) == 1, f"{number} {name}"
        assert f"was retried by {winner} at" in refused[0]


def test_a_retry_of_a_task_that_is_being_closed_is_refused_for_a_moment() -> None:
    world = RETRIED.world()
    errors: list[Exception] = []

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_index.put" and world.server.held.tasks[TASK].status is TaskStatus.FAILED and not errors:
            with pytest.raises(TransientError) as refused:
                retry_task(world.engine, TASK, request_of("retry1", world))
            errors.append(refused.value)
        return call()

    world.watch = watch
    world.submit(RETRIED.team)
    world.settle()
    assert "is being closed; retry it again in a moment" in str(errors[0])
    assert agents_of(world) == EXPECTED[:3]
    world.watch = make_call
    world.retry()
    world.settle()
    assert_completed(world)


def close_late(number: int) -> tuple[World, list[str]]:
    """Let coordinator A close the failed task. At its call of this number, B closes the task, and a user retries it.

    Return the world after the pass of A, and the calls of A so far.
    """
    world, acted = RETRIED.world(), list[str]()

    def watch(name: str, call: PortCall) -> Any:
        task = world.server.held.tasks.get(TASK)
        if task is None or task.status is not TaskStatus.FAILED or len(acted) >= number:
            return call()
        acted.append(name)
        if len(acted) == number:
            world.watch = make_call
            advance(world.process(), TASK)
            world.retry()
        return call()

    world.watch = watch
    world.submit(RETRIED.team)
    while world.dispatcher.queue and world.watch is watch:
        world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    return world, acted


def test_a_late_worker_that_closed_the_task_before_takes_nothing_from_the_retry() -> None:
    for number in range(1, 100):
        world, acted = close_late(number)
        if len(acted) < number:
            break
        assert world.files.held[open_marker_path(TASK)] == OPENED, f"{number} {acted[-1]}"
        assert world.summary().status is TaskStatus.RUNNING, f"{number} {acted[-1]}"
        world.settle_for(3)
        world.settle()
        assert_completed(world, f"{number} {acted[-1]}")
    assert number > 10


MARKER = open_marker_path(TASK)


def lose_marker(times: int, dies_after: int) -> World:
    """Return a world whose failed task was retried, and whose late closers then removed the marker, and died.

    Coordinators, as many as `times`, come to the deletion of the marker of the end. Before they make that call, another
    one closes the task, and a user retries it. Each of them dies that many calls after the deletion.
    """
    world, left = RETRIED.world(), [times]

    def watch(name: str, call: PortCall) -> Any:
        if name != "files.delete" or call.args[0] != MARKER:  # type: ignore[attr-defined]  # a partial
            return call()
        left[0] -= 1
        if left[0]:
            with pytest.raises(Crash):
                advance(world.process(), TASK)
        else:
            world.watch = make_call
            advance(world.process(), TASK)
            world.retry()
        world.watch = Fault(dies_after, crash, after=True)
        call()
        return None if dies_after else crash()

    world.watch = watch
    world.submit(RETRIED.team)
    while world.dispatcher.queue and left[0]:
        world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    return world


@pytest.mark.parametrize("wipes", [False, True], ids=["redis kept", "redis emptied"])
@pytest.mark.parametrize("dies_after", range(4))
@pytest.mark.parametrize("times", [1, 2])
def test_a_retry_whose_marker_late_closers_removed_before_they_died_is_found(
    times: int, dies_after: int, wipes: bool
) -> None:
    world = lose_marker(times, dies_after)
    assert (MARKER in world.files.held) == (dies_after > 1)
    if wipes:
        world.server.wipe()
        world.dispatcher.queue.clear()
    rebuild_index(world.engine, 10.0)
    world.settle_for(3)
    world.settle()
    assert_completed(world)


def test_a_retried_task_that_has_lost_its_marker_can_be_stopped() -> None:
    world = failed_world()
    world.retry()
    del world.files.held[MARKER]
    world.stop()
    assert world.files.held[MARKER] == OPENED
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED


def test_the_sweeper_restores_the_marker_of_a_retried_task() -> None:
    world = failed_world()
    world.retry()
    del world.files.held[MARKER]
    advance(world.engine, TASK, by_sweeper=True)
    assert world.files.held[MARKER] == OPENED


def test_a_late_closer_does_not_delete_the_marker_of_a_retry_that_it_sees() -> None:
    world = failed_world()
    before = world.engine.task_store.load(TASK, 1)
    assert before is not None
    world.retry()
    deleted = list[str]()

    def watch(name: str, call: PortCall) -> Any:
        if name == "files.delete":
            deleted.append(call.args[0])  # type: ignore[attr-defined]  # a partial
        return call()

    world.watch = watch
    close_task(world.engine, TASK, before, VersionedFile(CLOSED, ""))
    assert MARKER not in deleted
    assert world.files.held[MARKER] == OPENED


def test_a_lost_marker_of_a_retried_task_does_not_keep_it_from_ending() -> None:
    world = failed_world()
    world.retry()
    del world.files.held[open_marker_path(TASK)]
    world.settle()
    assert_completed(world)


@pytest.mark.parametrize("forgotten", [False, True], ids=["emptied", "expired"])
def test_a_task_that_redis_does_not_have_any_more_is_retried(forgotten: bool) -> None:
    world = failed_world()
    if forgotten:
        world.clock.move(world.given.policy.retention + 1)
    else:
        world.server.wipe()
    world.retry()
    world.settle()
    assert_completed(world)


def test_a_retried_task_survives_that_redis_is_emptied() -> None:
    world = failed_world()
    world.retry()
    world.server.wipe()
    world.settle()
    assert_completed(world)


def test_a_follower_with_a_cursor_at_the_end_continues_without_gap_or_repetition() -> None:
    world = failed_world()
    items = items_of(world.published(), partial(world.histories.read, TASK))
    cursor, seen = items[-1].cursor, len(world.published())
    assert items[-1].type == "event_task_end"
    world.retry()
    world.settle()
    more = items_of(world.published()[seen:], partial(world.histories.read, TASK), cursor)
    finals = [item.data.step.seq for item in (*items, *more) if isinstance(item.data, StepFinal)]
    assert finals == [0, 1, 2, 3, 4]
    assert more[0].type == "event_status"
    assert not [item for item in more if item.type == "event_stream_reset"]
    assert read_items([*items, *more]).steps == world.history()
    assert [record["type"] for record in world.events()].count("event_task_end") == 2


def test_a_retry_at_a_limit_needs_a_higher_one() -> None:
    journey = replace(SEQUENTIAL, team=team_of(agents=[member("a"), member("b")], limits={"max_steps": 2}))
    world = failed_world(journey)
    with pytest.raises(StateConflict, match=r"max_steps is 2; name a higher limit .* roboco retry task_1 --max-steps"):
        world.retry()
    with pytest.raises(StateConflict, match="max_steps is 4"):
        world.retry(max_steps=4)
    with pytest.raises(UsageError, match="'nobody'"):
        world.retry(agents={"nobody": {"max_steps": 5}})
    assert len(world.history()) == 3
    world.retry(max_steps=50)
    assert world.summary().limit_overrides is None  # those of the end before the retry are out of date
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.summary().limit_overrides == {"max_steps": 50}


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
    worlds[0].retry()
    worlds[0].settle()
    assert worlds[0].summary().status is TaskStatus.COMPLETED


def test_a_retry_from_an_earlier_step_is_refused_and_names_the_fork() -> None:
    world = failed_world()
    before = list(world.histories.lines(TASK))
    for step, message in ((0, r"not from 0: .* roboco fork task_1 --seq 0"), (2, "its last good step is 1")):
        request = RetryRequest(item_id=f"from{step}", created_at=world.engine.now())
        with pytest.raises(StateConflict, match=message):
            retry_task(world.engine, TASK, request, step)
    assert list(world.histories.lines(TASK)) == before
    request = RetryRequest(item_id="from1", created_at=world.engine.now())
    retry_task(world.engine, TASK, request, 1)
    world.settle()
    assert_completed(world)


def test_only_a_failed_task_is_retried() -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(NotFound):
        world.retry()
    world.submit(SEQUENTIAL.team)
    with pytest.raises(StateConflict, match="has not failed, it is queued; there is nothing to retry"):
        world.retry()
    world.settle()
    with pytest.raises(StateConflict, match="it is completed: only a failed task can be retried; fork it"):
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


def test_a_stop_that_arrived_as_the_task_failed_does_not_end_the_retry() -> None:
    world = failed_world()
    stop = Stop(item_id="stop1", created_at=world.engine.now())
    world.files.held[item_path(TASK, "stop1")] = stop.model_dump_json().encode()
    world.retry()
    world.settle()
    assert_completed(world)
    assert world.history()[3].metadata["retry"]["expired_items"] == ["stop1"]
    assert world.files.names(inbox_path(TASK)) == []
    world.server.wipe()
    assert applied_path(TASK, "stop1") in world.files.held


@pytest.mark.parametrize("stops", [True, False], ids=["stop", "message"])
def test_what_arrives_before_redis_has_the_retry_is_applied_after_it(stops: bool, monkeypatch: Any) -> None:
    world = failed_world()
    with monkeypatch.context() as patched:  # Redis does not answer: the sweeper applies the accepted retry
        patched.setattr("roboco.engine.accept.retry_task._continue", lambda *_: None)
        world.retry()
    now = world.engine.now()
    stop, message = Stop(item_id="stop1", created_at=now), UserMessage(item_id="more", created_at=now, text="more")
    accept_item(world.engine, TASK, stop if stops else message)
    world.settle()
    assert world.summary().status is (TaskStatus.CANCELLED if stops else TaskStatus.COMPLETED)
    assert ("more" in [step.text for step in world.history()]) is not stops


def test_a_message_that_waited_as_the_task_failed_is_answered_after_the_retry() -> None:
    def script(request: Request, world: World) -> ScriptedReply:
        if any(step.is_retry for step in world.history()):
            return says("well")
        world.send("more")
        return ScriptedReply(error=ModelError("model", "no", retryable=False))

    journey = Journey(team_of(agents=[member("one")]), live=script)
    world = failed_world(journey)
    world.retry()
    world.settle()
    assert [step.text for step in world.history() if step.agent_name == "user"] == ["go", "more"]
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_loop_starts_anew_after_a_retry() -> None:
    def script(request: Request, world: World) -> ScriptedReply:
        return says("done") if any(step.is_retry for step in world.history()) else says("", ("add", {"a": 1}))

    team = team_of(
        agents=[member("lead", tools=["add"])],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        limits={"max_repeats": 2},
    )
    world = failed_world(Journey(team, functions={"add": lambda args, context: 1}, live=script))
    assert world.history()[-1].error.code == "loop"  # type: ignore[union-attr]
    runs = len(world.given.toolbox.runs)
    world.retry()
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert len(world.given.toolbox.runs) == runs


def test_the_task_index_lists_a_retried_task_as_running() -> None:
    world = failed_world()
    world.retry()
    page = world.engine.task_index.page(TaskFilter(statuses=frozenset({TaskStatus.RUNNING})))
    assert [entry.task_id for entry in page.entries] == [TASK]
    assert world.files.held[open_marker_path(TASK)] == OPENED
