"""Closing a task: its files only move forward, its end reaches every follower, and no accepted item is lost."""

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.paths import (
    CLOSED,
    closing_marker,
    events_path,
    inbox_path,
    item_path,
    open_marker_path,
    summary_path,
)
from roboco.domain.status import TaskStatus
from roboco.engine.coordinator.advance import FAILED_CHECK_DELAY, advance
from roboco.engine.intake import accept_item as receiving
from roboco.engine.intake import send as message
from roboco.engine.intake.accept_item import MAX_CONTROLS, MAX_ITEMS
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.task_store import Phase
from tests.support.memory_ports.controlled import DELEGATING
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL, assert_whole
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import TASK, World


def once(world: World, where: str, act: Callable[[], object], after: bool = False) -> None:
    """Do something before or after the next port call of this name."""

    def watch(name: str, call: PortCall) -> Any:
        if name != where:
            return call()
        world.watch = make_call
        if after:
            answer = call()
            act()
            return answer
        act()
        return call()

    world.watch = watch


def assert_ended(world: World, status: TaskStatus) -> None:
    """The task is closed with this status, and every source of its end agrees."""
    world.settle()
    assert world.summary().status is status
    assert world.summary().steps == len(world.history())
    stored = [json.loads(line) for line in world.files.held[events_path(TASK)].splitlines()]
    assert [record["type"] for record in stored].count("event_task_end") == 1
    assert stored[-1]["type"] == "event_task_end"
    if TASK in world.server.held.tasks:
        assert world.events()[-1] | {"step": 0} == stored[-1] | {"step": 0}
    reader = read_items(items_of(world.published(), partial(world.histories.read, TASK)))
    assert reader.ended
    assert reader.steps == world.history()
    assert world.pending_item_ids() == []


@pytest.mark.parametrize("where", ["files.get_versioned", "files.replace", "logs.events"])
def test_a_late_write_of_a_waiting_task_replaces_nothing_of_a_closed_one(where: str) -> None:
    """Coordinator A has decided to wait and is slow; B ends and closes the task."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    advance(world.engine, TASK)

    def stop() -> None:
        world.stop()
        world.settle()
        assert world.summary().status is TaskStatus.CANCELLED

    once(world, where, stop)
    world.drain()
    assert world.watch is make_call, "the write was never made"
    assert_ended(world, TaskStatus.CANCELLED)


def test_a_waiting_task_has_a_summary_though_the_worker_that_decided_it_died() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)

    def die() -> None:
        if world.server.held.tasks[TASK].status is TaskStatus.USER_TURN:
            raise Crash

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "task_store.record_decision":
            die()
        return answer

    world.watch = watch
    for _ in range(6):
        world.drain()
    world.watch = make_call
    assert world.summary().status is TaskStatus.QUEUED
    world.clock.move(4000)
    world.sweep()
    assert world.summary().status is TaskStatus.USER_TURN


def ending(world: World) -> World:
    """The world with a task whose end was decided, and which is not closed: its coordinator has died."""

    def die() -> None:
        raise Crash

    world.submit(SEQUENTIAL.team)
    once(world, "histories.compact", die)
    world.drain()
    assert world.status() is TaskStatus.COMPLETED
    assert open_marker_path(TASK) in world.files.held
    return world


def test_the_end_outlives_a_restart_of_redis_that_loses_nothing() -> None:
    world = ending(SEQUENTIAL.world())
    world.server.restore(world.server.copy())
    assert_ended(world, TaskStatus.COMPLETED)


def test_the_end_outlives_a_restart_of_redis_that_loses_it() -> None:
    world = SEQUENTIAL.world()
    kept = world.server.copy()
    world.submit(SEQUENTIAL.team)
    once(world, "task_store.record_decision", lambda: None)

    def watch(name: str, call: PortCall) -> Any:
        nonlocal kept
        if name == "task_store.record_decision":
            kept = world.server.copy()
        return call()

    world.watch = watch
    world.settle()
    world.watch = make_call
    assert open_marker_path(TASK) not in world.files.held
    world.server.restore(kept)
    assert world.status() is not TaskStatus.COMPLETED
    for _ in range(8):
        world.clock.move(20)
        world.sweep()
        world.drain()
    assert world.events()[-1]["type"] == "event_task_end"
    assert world.server.held.tasks[TASK].forget_at is not None
    assert TASK not in world.server.held.schedule
    assert_whole(world, "")


def test_a_message_that_comes_with_a_resume_is_not_lost_with_the_end() -> None:
    """A pass that takes a hold and its resume away knows as many items as come meanwhile."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    while len(world.history()) < 5:
        world.deliver(world.dispatcher.queue.popleft())
    world.pause()
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    world.resume()
    once(world, "task_store.record_decision", lambda: world.send("one thing more"))
    assert_ended(world, TaskStatus.COMPLETED)
    assert "one thing more" in [step.text for step in world.history()]


@pytest.mark.parametrize("where", ["histories.compact", "logs.events", "files.delete", "task_store.expire"])
def test_a_message_that_comes_after_the_end_was_decided_is_refused(where: str) -> None:
    world = SEQUENTIAL.world()
    refused: list[str] = []

    def send() -> None:
        with pytest.raises((UsageError, TransientError)) as error:
            message.accept_message(
                world.engine, TASK, UserMessage(item_id="late", created_at=world.engine.now(), text="late")
            )
        refused.append(str(error.value))

    world.submit(SEQUENTIAL.team)
    once(world, where, send)
    world.settle()
    assert len(refused) == 1
    assert_ended(world, TaskStatus.COMPLETED)


def loss_after_the_end(loss: str, at: int) -> tuple[World, bool] | None:
    """Redis loses the end at this port call after its decision, and a message comes: the world, and if it was refused.

    None if the task is closed before that call.
    """
    world = SEQUENTIAL.world()
    kept: list[Any] = []
    calls: list[str] = []
    refused: list[bool] = []

    def lose() -> None:
        world.server.wipe() if loss == "wiped" else world.server.restore(kept[-1])
        try:
            world.send("late")
        except (UsageError, AssertionError):  # it has ended, or is being closed whenever it is sent again
            refused.append(True)

    def watch(name: str, call: PortCall) -> Any:
        before = world.server.copy() if name == "task_store.record_decision" else None
        answer = call()
        task = world.server.held.tasks.get(TASK)
        if name == "task_store.record_decision" and task is not None and task.status.ended:
            kept.append(before)
        if kept:
            calls.append(name)
        if len(calls) == at:
            world.watch = make_call
            lose()
        return answer

    world.submit(SEQUENTIAL.team)
    world.watch = watch
    world.settle()
    return (world, bool(refused)) if world.watch is make_call else None


@pytest.mark.parametrize("loss", ["wiped", "set back"])
def test_a_message_that_comes_while_redis_loses_the_end_is_taken_or_refused(loss: str) -> None:
    """At each port call from the decision to end until the task is closed."""
    taken = 0
    for at in count(1):
        lost = loss_after_the_end(loss, at)
        if lost is None:
            break
        world, refused = lost
        texts = [step.text for step in world.history()]
        taken += "late" in texts
        assert world.summary().status is TaskStatus.COMPLETED, at
        assert refused or "late" in texts, at
        assert refused or not [path for path in world.files.held if path.startswith(inbox_path(TASK))], at
        assert read_items(items_of(world.published(), partial(world.histories.read, TASK))).ended, at
    assert at > 10
    assert taken > 3


def test_a_task_that_was_about_to_close_takes_items_again() -> None:
    """The worker that began to close it died, and Redis had lost the end."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    world.files.held[open_marker_path(TASK)] = closing_marker(1)
    with pytest.raises(AssertionError, match="three times without an answer"):
        world.send("not now", "item2")
    world.clock.move(4000)
    world.sweep()
    world.send("taken", "item2")
    world.settle()
    assert "taken" in [step.text for step in world.history()]


def test_an_inbox_is_limited_and_a_stop_is_not_kept_out() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    for number in range(MAX_ITEMS):
        world.send("more", f"item{number}")
    with pytest.raises(UsageError, match=f"has {MAX_ITEMS} items in its inbox, at most {MAX_ITEMS} may wait"):
        world.send("too much", "item-one-too-many")
    world.send("more", "item0")  # a repetition is no further item
    for number in range(MAX_CONTROLS):
        world.interrupt("now", f"interrupt{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.interrupt("now", "interrupt-one-too-many")
    for number in range(MAX_CONTROLS):
        world.stop(f"stop{number}")
    assert len(world.pending_item_ids()) == MAX_ITEMS + 2 * MAX_CONTROLS
    with pytest.raises(UsageError, match="in its inbox"):
        world.stop("stop-one-too-many")


@pytest.mark.parametrize("leave", [World.resume, World.stop])
def test_an_inbox_full_of_pauses_keeps_no_task_from_going_on(leave: Callable[[World], None]) -> None:
    """A pause stays in the inbox while it counts."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    for number in range(MAX_ITEMS + MAX_CONTROLS):
        world.pause(f"pause{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.pause("pause-one-too-many")
    leave(world)
    world.settle()
    assert world.summary().status.ended


FEW = 40
"""The limit of an inbox in tests that also have the task take all items, of which each look reads every one."""


def test_a_full_inbox_keeps_no_task_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused task takes none of its messages before it is resumed."""
    monkeypatch.setattr(receiving, "MAX_ITEMS", FEW)
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.pause()
    world.settle()
    for number in range(FEW - 1):  # the pause waits, too
        world.send("more", f"item{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.send("more", "item-one-too-many")
    world.resume()
    world.drain()
    assert world.status() is not TaskStatus.PAUSED
    assert len(world.pending_item_ids()) < FEW


def test_a_full_inbox_keeps_no_result_of_a_sub_task_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_ITEMS", FEW)
    world = DELEGATING.world()
    world.submit(DELEGATING.team, **DELEGATING.options)
    while world.server.held.tasks[TASK].phase.value != "tools":
        world.deliver(world.dispatcher.queue.popleft())
    for number in range(FEW):
        world.send("more", f"item{number}")
    while len(world.history()) < 3:
        world.deliver(world.dispatcher.queue.popleft())
    assert world.history()[2].agent_name == "tool_executor"


def test_stops_of_a_task_that_is_never_submitted_are_limited() -> None:
    world = SEQUENTIAL.world()
    for number in range(MAX_CONTROLS):
        world.stop(f"stop{number}")
    with pytest.raises(UsageError, match="already has 100 stops; send no more"):
        world.stop("stop-one-too-many")
    assert len([path for path in world.files.held if path.startswith(inbox_path(TASK))]) == MAX_CONTROLS


def test_a_task_is_not_closed_before_the_sweeper_has_recovered_a_restarted_redis() -> None:
    """Events may have the numbers of lost ones until its logs begin anew."""
    world = ending(SEQUENTIAL.world())
    world.server.restore(world.server.copy())
    generation = world.server.held.tasks[TASK].generation
    with pytest.raises(TransientError, match="before the sweeper has recovered"):
        advance(world.engine, TASK)
    assert open_marker_path(TASK) in world.files.held
    assert_ended(world, TaskStatus.COMPLETED)
    assert world.server.held.tasks[TASK].generation > generation


def test_a_state_that_comes_back_while_the_task_is_closed_is_ended_again() -> None:
    world = SEQUENTIAL.world()
    kept: list[Any] = []
    world.submit(SEQUENTIAL.team)

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.record_decision":
            kept.append(world.server.copy())
        if name == "task_store.expire" and not world.server.instance > 1:
            world.server.restore(kept[-1])
        return call()

    world.watch = watch
    world.settle_for(3)
    world.watch = make_call
    for _ in range(6):
        world.clock.move(60)
        world.sweep()
        world.drain()
    assert world.events()[-1]["type"] == "event_task_end"
    assert world.server.held.tasks[TASK].forget_at is not None
    assert TASK not in world.server.held.schedule


def test_a_task_that_is_set_up_again_has_a_later_fence_than_its_summary() -> None:
    """A server with a slow clock has taken the place of the lost one."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    ahead = world.summary().epoch + 10_000_000
    path = summary_path(TASK)
    world.files.held[path] = world.summary().model_copy(update={"epoch": ahead}).model_dump_json().encode()
    world.server.wipe()
    world.clock.move(60)
    world.sweep()
    assert world.server.held.tasks[TASK].epoch > ahead


def test_a_closed_task_that_is_set_up_again_takes_no_item() -> None:
    """The worker that closed it died before the marker was removed; a stop came then, and Redis was emptied."""
    world = SEQUENTIAL.world()

    def die() -> None:
        raise Crash

    world.submit(SEQUENTIAL.team)
    once(world, "files.delete", die)
    world.drain()
    assert world.files.held[open_marker_path(TASK)] == CLOSED
    stop = Stop(item_id="late", created_at=world.engine.now())
    world.files.held[item_path(TASK, "late")] = stop.model_dump_json().encode()
    world.server.wipe()
    for _ in range(4):
        world.clock.move(20)
        world.sweep()
        world.drain()
    assert open_marker_path(TASK) not in world.files.held
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.summary().steps == len(world.history())


def test_no_task_ends_before_the_sweeper_has_recovered_a_restarted_redis() -> None:
    """Redis may have lost the note of an item that was accepted."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    kept = world.server.copy()
    world.send("and this")
    world.server.restore(kept)
    world.drain()
    assert not world.status().ended
    world.sweep()
    world.settle()
    assert_ended(world, TaskStatus.COMPLETED)
    assert "and this" in [step.text for step in world.history()]


def test_an_end_that_redis_kept_stands_though_an_item_came_after_it() -> None:
    """A sender has stored its message and not yet learned that the task has ended when Redis is restarted."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)

    def die() -> None:
        raise Crash

    once(world, "histories.compact", die)
    world.drain()
    late = UserMessage(item_id="late", created_at=world.engine.now(), text="late")
    world.files.held[item_path(TASK, "late")] = late.model_dump_json().encode()
    world.server.restore(world.server.copy())
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert "late" not in [step.text for step in world.history()]
    ends = [record["status"] for record in world.published() if record["type"] == "event_task_end"]
    assert set(ends) == {"completed"}


def test_a_history_that_is_not_gathered_keeps_the_task_open() -> None:
    world = SEQUENTIAL.world()
    gathered = False

    def watch(name: str, call: PortCall) -> Any:
        return call() and gathered if name == "histories.compact" else call()

    world.watch = watch
    world.submit(SEQUENTIAL.team)
    world.drain()
    assert isinstance(world.failures[-1], TransientError)
    assert open_marker_path(TASK) in world.files.held
    gathered = True
    assert_ended(world, TaskStatus.COMPLETED)


def test_a_waiting_task_that_redis_lost_a_moment_ago_sees_a_message_at_once() -> None:
    """The coordinator that decided to wait must not put off what came in between."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    sent: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        task = world.server.held.tasks.get(TASK)
        if name == "schedule.set" and not sent and task is not None and task.phase is Phase.WAIT:
            sent.append("item1")
            world.server.wipe()
            world.send("more")
            world.dispatcher.queue.clear()
        return call()

    world.watch = watch
    world.drain()
    assert sent
    world.watch = make_call
    assert world.server.held.tasks[TASK].phase is not Phase.WAIT or world.pending_item_ids() == []


def test_what_came_is_looked_at_soon_if_a_look_has_failed() -> None:
    """The look had put the next one off, because the task waits, when the message came."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    world.send("more")
    world.server.held.schedule[TASK] = world.clock.now() + 3600

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.load":
            raise CorruptHistory("step 1 was changed")
        return call()

    world.watch = watch
    with pytest.raises(CorruptHistory):
        advance(world.engine, TASK)
    assert world.server.held.schedule[TASK] - world.clock.now() <= FAILED_CHECK_DELAY


def test_an_item_that_redis_lost_while_the_end_is_chosen_is_taken() -> None:
    """Redis is set back between the question whether it is recovered and the choice."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    kept: list[Any] = []

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "schedule.recovered_instance" and not kept:
            kept.append(world.server.copy())
            world.send("and this")
            world.server.restore(kept[0])
        return answer

    world.watch = watch
    world.drain()
    world.watch = make_call
    world.settle()
    assert kept
    assert "and this" in [step.text for step in world.history()]
