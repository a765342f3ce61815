"""Closing a task: what it waits for, and the bounds of its inbox."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roboco.domain.paths import (
    closing_marker,
    events_path,
    inbox_path,
    open_marker_path,
)
from roboco.domain.status import TaskStatus
from roboco.engine.accept import accept_item
from roboco.engine.accept.accept_item import MAX_CONTROLS, MAX_ITEMS
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World


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


def test_a_task_whose_close_was_interrupted_accepts_items_again() -> None:
    """The worker that started to close it crashed, and Redis had lost the end."""
    world = MANUAL.at_rest()
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
def test_a_task_with_an_inbox_full_of_pauses_can_be_continued(
    control: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause stays in the inbox while it is in effect."""
    monkeypatch.setattr(accept_item, "MAX_ITEMS", SMALL_INBOX)
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    for number in range(SMALL_INBOX + MAX_CONTROLS):
        world.pause(f"pause{number}")
    with pytest.raises(UsageError, match="in its inbox"):
        world.pause("pause-one-too-many")
    control(world)
    world.settle()
    assert world.summary().status.ended


SMALL_INBOX = 40
"""The limit of an inbox in tests that also apply all items, since each pass reads every item."""


def test_stops_of_a_task_that_is_never_submitted_are_limited() -> None:
    world = SEQUENTIAL.world()
    for number in range(MAX_CONTROLS):
        world.stop(f"stop{number}")
    with pytest.raises(UsageError, match="already has 100 stops; send no more"):
        world.stop("stop-one-too-many")
    assert len([path for path in world.files.held if path.startswith(inbox_path(TASK))]) == MAX_CONTROLS


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
