"""inbox_items: items are applied in the order of their creation."""

import pytest

from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import item_path
from roboco.domain.status import TaskStatus
from roboco.engine.record.inbox_items import pending_items
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.task_store import MemoryTaskStore
from tests.support.memory_ports.world import TASK, World

COUNT = 40


def task_with_messages(count: int = COUNT) -> World:
    """Return the world of a waiting task to which clients have sent messages. No coordinator has read them."""
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    for number in range(count):
        world.send(f"message {number}", f"item{count - number}")
    world.dispatcher.queue.clear()
    world.engine = world.process()
    return world


def pending(world: World) -> list[str]:
    task = MemoryTaskStore(world.server, world.clock).load(TASK, 100)
    assert task is not None
    return [item.text for item in pending_items(world.engine, TASK, task) if isinstance(item, UserMessage)]


@pytest.mark.parametrize("count", [1, COUNT])
def test_items_are_pending_in_the_order_of_their_creation(count: int) -> None:
    world = task_with_messages(count)
    for _ in range(2):
        assert pending(world) == [f"message {number}" for number in range(count)]


def test_an_item_that_another_worker_has_applied_is_not_applied_again() -> None:
    """The other worker died after it deleted the item's file, before it removed the item from Redis."""
    world = task_with_messages()
    del world.files.held[item_path(TASK, "item3")]
    assert len(pending(world)) == COUNT - 1
    assert "item3" not in world.server.held.inboxes[TASK]


def test_a_stop_among_many_messages_counts_at_once() -> None:
    world = task_with_messages()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert len(world.history()) < COUNT
