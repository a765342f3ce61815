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
from roboco.engine.accept import accept_item
from roboco.engine.accept import send as message
from roboco.engine.accept.accept_item import MAX_CONTROLS, MAX_ITEMS
from roboco.engine.coordinate.advance import FAILED_CHECK_DELAY, advance
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.task_store import Phase
from tests.support.memory_ports.controlled import DELEGATING
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL, assert_whole
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import TASK, World


def act_at(world: World, where: str, act: Callable[[], object], after: bool = False) -> None:
    """Make a call before or after the next port call of this name."""

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
    """Settle the task, and assert that every source agrees on its end with this status."""
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
    """Coordinator A has decided to wait and is slow; coordinator B ends and closes the task."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    advance(world.engine, TASK)

    def stop() -> None:
        world.stop()
        world.settle()
        assert world.summary().status is TaskStatus.CANCELLED

    act_at(world, where, stop)
    world.drain()
    assert world.watch is make_call, "the write was never made"
    assert_ended(world, TaskStatus.CANCELLED)


def test_a_waiting_task_has_a_summary_although_the_deciding_worker_crashed() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)

    def crash() -> None:
        if world.server.held.tasks[TASK].status is TaskStatus.USER_TURN:
            raise Crash

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "task_store.record_decision":
            crash()
        return answer

    world.watch = watch
    for _ in range(6):
        world.drain()
    world.watch = make_call
    assert world.summary().status is TaskStatus.QUEUED
    world.clock.move(4000)
    world.sweep()
    assert world.summary().status is TaskStatus.USER_TURN


def with_decided_end(world: World) -> World:
    """Return the world with a task whose end was decided, and whose coordinator crashed before it closed the task."""

    def crash() -> None:
        raise Crash

    world.submit(SEQUENTIAL.team)
    act_at(world, "histories.compact", crash)
    world.drain()
    assert world.status() is TaskStatus.COMPLETED
    assert open_marker_path(TASK) in world.files.held
    return world


def test_a_decided_end_survives_a_restart_of_redis_without_loss() -> None:
    world = with_decided_end(SEQUENTIAL.world())
    world.server.restore(world.server.copy())
    assert_ended(world, TaskStatus.COMPLETED)


def test_a_closed_task_ends_again_after_a_restart_of_redis_that_loses_the_end() -> None:
    world = SEQUENTIAL.world()
    snapshots = world.server.copy()
    world.submit(SEQUENTIAL.team)
    act_at(world, "task_store.record_decision", lambda: None)

    def watch(name: str, call: PortCall) -> Any:
        nonlocal snapshots
        if name == "task_store.record_decision":
            snapshots = world.server.copy()
        return call()

    world.watch = watch
    world.settle()
    world.watch = make_call
    assert open_marker_path(TASK) not in world.files.held
    world.server.restore(snapshots)
    assert world.status() is not TaskStatus.COMPLETED
    for _ in range(8):
        world.clock.move(20)
        world.sweep()
        world.drain()
    assert world.events()[-1]["type"] == "event_task_end"
    assert world.server.held.tasks[TASK].forget_at is not None
    assert TASK not in world.server.held.schedule
    assert_whole(world, "")


def test_a_message_that_arrives_after_a_resume_is_not_lost_at_the_end() -> None:
    """A pass that removes a pause and its resume knows as many items as arrive during it."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    while len(world.history()) < 5:
        world.deliver(world.dispatcher.queue.popleft())
    world.pause()
    world.settle()
    assert world.status() is TaskStatus.PAUSED
    world.resume()
    act_at(world, "task_store.record_decision", lambda: world.send("one thing more"))
    assert_ended(world, TaskStatus.COMPLETED)
    assert "one thing more" in [step.text for step in world.history()]


@pytest.mark.parametrize("where", ["histories.compact", "logs.events", "files.delete", "task_store.expire"])
def test_a_message_after_the_decision_to_end_is_refused(where: str) -> None:
    world = SEQUENTIAL.world()
    refused: list[str] = []

    def send() -> None:
        with pytest.raises((UsageError, TransientError)) as error:
            message.accept_message(
                world.engine, TASK, UserMessage(item_id="late", created_at=world.engine.now(), text="late")
            )
        refused.append(str(error.value))

    world.submit(SEQUENTIAL.team)
    act_at(world, where, send)
    world.settle()
    assert len(refused) == 1
    assert_ended(world, TaskStatus.COMPLETED)


def lose_the_end(loss: str, at: int) -> tuple[World, bool] | None:
    """Have Redis lose the end at this port call after its decision, and send a message.

    Return the world and whether the message was refused, or None if the task is closed before that call.
    """
    world = SEQUENTIAL.world()
    snapshots: list[Any] = []
    calls: list[str] = []
    refused: list[bool] = []

    def lose() -> None:
        world.server.wipe() if loss == "wiped" else world.server.restore(snapshots[-1])
        try:
            world.send("late")
        except (UsageError, AssertionError):  # the task has ended, or is being closed at each attempt
            refused.append(True)

    def watch(name: str, call: PortCall) -> Any:
        before = world.server.copy() if name == "task_store.record_decision" else None
        answer = call()
        task = world.server.held.tasks.get(TASK)
        if name == "task_store.record_decision" and task is not None and task.status.ended:
            snapshots.append(before)
        if snapshots:
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
def test_a_message_during_a_loss_of_the_end_is_applied_or_refused(loss: str) -> None:
    """At each port call between the decision to end and the close of the task."""
    taken = 0
    for at in count(1):
        lost = lose_the_end(loss, at)
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


def test_a_task_whose_close_was_interrupted_accepts_items_again() -> None:
    """The worker that started to close it crashed, and Redis had lost the end."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    world.files.held[open_marker_path(TASK)] = closing_marker(1)
    with pytest.raises(AssertionError, match="three times without an answer"):
        world.send("taken", "item2")
    world.clock.move(4000)
    world.sweep()
    world.send("taken", "item2")
    world.settle()
    assert [step.text for step in world.history()].count("taken") == 1


def test_an_inbox_is_limited_and_has_room_for_stops() -> None:
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


@pytest.mark.parametrize("control", [World.resume, World.stop])
def test_a_task_with_an_inbox_full_of_pauses_can_be_continued(control: Callable[[World], None]) -> None:
    """A pause stays in the inbox while it is in effect."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    for number in range(MAX_ITEMS + MAX_CONTROLS):
        world.pause(f"pause{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.pause("pause-one-too-many")
    control(world)
    world.settle()
    assert world.summary().status.ended


SMALL_INBOX = 40
"""The limit of an inbox in tests that also apply all items, since each pass reads every item."""


def test_a_task_with_a_full_inbox_can_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused task applies none of its messages before it is resumed."""
    monkeypatch.setattr(accept_item, "MAX_ITEMS", SMALL_INBOX)
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.pause()
    world.settle()
    for number in range(SMALL_INBOX - 1):  # the pause waits, too
        world.send("more", f"item{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.send("more", "item-one-too-many")
    world.resume()
    world.drain()
    assert world.status() is not TaskStatus.PAUSED
    assert len(world.pending_item_ids()) < SMALL_INBOX


def test_a_full_inbox_accepts_the_result_of_a_sub_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_item, "MAX_ITEMS", SMALL_INBOX)
    world = DELEGATING.world()
    world.submit(DELEGATING.team, **DELEGATING.options)
    while world.server.held.tasks[TASK].phase.value != "tools":
        world.deliver(world.dispatcher.queue.popleft())
    for number in range(SMALL_INBOX):
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
    """Before its logs are reset, new events may get the numbers of lost ones."""
    world = with_decided_end(SEQUENTIAL.world())
    world.server.restore(world.server.copy())
    generation = world.server.held.tasks[TASK].generation
    with pytest.raises(TransientError, match="before the sweeper has recovered"):
        advance(world.engine, TASK)
    assert open_marker_path(TASK) in world.files.held
    assert_ended(world, TaskStatus.COMPLETED)
    assert world.server.held.tasks[TASK].generation > generation


def test_an_old_state_restored_during_the_close_is_ended_again() -> None:
    world = SEQUENTIAL.world()
    snapshots: list[Any] = []
    world.submit(SEQUENTIAL.team)

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.record_decision":
            snapshots.append(world.server.copy())
        if name == "task_store.expire" and not world.server.instance > 1:
            world.server.restore(snapshots[-1])
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


def test_a_rebuilt_task_has_a_later_fence_than_its_summary() -> None:
    """A server with a slow clock has replaced the lost one."""
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


def test_a_rebuilt_closed_task_applies_no_item() -> None:
    """The worker that closed it crashed before it removed the marker; then a stop arrived, and Redis lost its data."""
    world = SEQUENTIAL.world()

    def crash() -> None:
        raise Crash

    world.submit(SEQUENTIAL.team)
    act_at(world, "files.delete", crash)
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
    """Redis may have lost the record of an accepted item."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    snapshots = world.server.copy()
    world.send("and this")
    world.server.restore(snapshots)
    world.drain()
    assert not world.status().ended
    world.sweep()
    world.settle()
    assert_ended(world, TaskStatus.COMPLETED)
    assert "and this" in [step.text for step in world.history()]


def test_an_end_that_redis_kept_is_final_although_an_item_arrived_later() -> None:
    """When Redis restarts, a sender has stored its message and does not know yet that the task has ended."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)

    def crash() -> None:
        raise Crash

    act_at(world, "histories.compact", crash)
    world.drain()
    late = UserMessage(item_id="late", created_at=world.engine.now(), text="late")
    world.files.held[item_path(TASK, "late")] = late.model_dump_json().encode()
    world.server.restore(world.server.copy())
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert "late" not in [step.text for step in world.history()]
    ends = [record["status"] for record in world.published() if record["type"] == "event_task_end"]
    assert set(ends) == {"completed"}


def test_a_task_whose_history_is_not_compacted_stays_open() -> None:
    world = SEQUENTIAL.world()
    compacted = False

    def watch(name: str, call: PortCall) -> Any:
        return call() and compacted if name == "histories.compact" else call()

    world.watch = watch
    world.submit(SEQUENTIAL.team)
    world.drain()
    assert isinstance(world.failures[-1], TransientError)
    assert open_marker_path(TASK) in world.files.held
    compacted = True
    assert_ended(world, TaskStatus.COMPLETED)


def test_a_waiting_task_that_redis_just_lost_applies_a_message_immediately() -> None:
    """The coordinator that decided to wait must not delay items that arrived in between."""
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


def test_a_task_is_loaded_once_for_its_end() -> None:
    """The pass that records the end closes the task with the state that it has."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    calls: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        calls.append(name)
        return call()

    world.watch = watch
    world.drain()
    end = calls.index("schedule.recovered_instance")
    last_load = max(index for index, name in enumerate(calls[:end]) if name == "task_store.load")
    passed = calls[last_load:]
    assert passed.count("task_store.load") == 1
    assert passed.count("task_store.record_decision") == 1
    assert passed.count("task_store.expire") == 2, "the task is closed"


def test_a_failed_pass_over_a_waiting_task_is_repeated_soon() -> None:
    """When the message arrived, the last pass had delayed the next one, since the task waits."""
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


def test_an_item_that_redis_lost_during_the_decision_to_end_is_applied() -> None:
    """Redis is set back between the check of its recovery and the decision."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    snapshots: list[Any] = []

    def watch(name: str, call: PortCall) -> Any:
        answer = call()
        if name == "schedule.recovered_instance" and not snapshots:
            snapshots.append(world.server.copy())
            world.send("and this")
            world.server.restore(snapshots[0])
        return answer

    world.watch = watch
    world.drain()
    world.watch = make_call
    world.settle()
    assert snapshots
    assert "and this" in [step.text for step in world.history()]
