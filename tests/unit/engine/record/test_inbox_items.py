"""inbox_items: a process reads each waiting item once, and applies the items in order."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import inbox_path, item_path
from roboco.domain.status import TaskStatus
from roboco.engine.item_cache import ITEM_BYTES, ItemCache
from roboco.engine.record.inbox_items import MAX_UNCACHED_ITEMS, pending_items
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.task_store import MemoryTaskStore
from tests.support.memory_ports.watch import make_call
from tests.support.memory_ports.world import TASK, World

COUNT = 5 * MAX_UNCACHED_ITEMS


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


@contextmanager
def counting(world: World) -> Iterator[Counter[str]]:
    """Count the requests to the inbox: each read of a file by its path, and each listing."""
    counts = Counter[str]()

    def watch(name: str, call: Any) -> Any:
        if name in ("files.get", "files.get_many", "files.names"):
            paths = call.args[0] if name == "files.get_many" else [call.args[0]]
            counts.update(path for path in paths if path.startswith(inbox_path(TASK)))
        return call()

    world.watch = watch
    yield counts
    world.watch = make_call


def pending(world: World) -> list[str]:
    task = MemoryTaskStore(world.server, world.clock).load(TASK, 100)
    assert task is not None
    return [item.text for item in pending_items(world.engine, TASK, task) if isinstance(item, UserMessage)]


@pytest.mark.parametrize("count", [1, MAX_UNCACHED_ITEMS, MAX_UNCACHED_ITEMS + 1, COUNT])
def test_items_are_pending_in_the_order_of_their_creation(count: int) -> None:
    world = task_with_messages(count)
    for _ in range(2):
        assert pending(world) == [f"message {number}" for number in range(count)]


def test_a_task_applies_its_messages_with_two_reads_of_each() -> None:
    world = task_with_messages()
    with counting(world) as counts:
        world.engine.services.dispatcher.advance(TASK)
        world.settle()
    texts = [step.text for step in world.history() if step.agent_name == "user"][1:]
    assert texts == [f"message {number}" for number in range(COUNT)]
    reads = [count for path, count in counts.items() if path != inbox_path(TASK)]
    assert sum(reads) < 2 * COUNT + MAX_UNCACHED_ITEMS**2


def test_a_cached_item_that_another_worker_has_applied_is_not_applied_again() -> None:
    """The other worker died after it deleted the item's file, before it removed the item from Redis."""
    world = task_with_messages()
    pending(world)
    del world.files.held[item_path(TASK, "item3")]
    assert len(pending(world)) == COUNT - 1
    assert "item3" not in world.server.held.inboxes[TASK]


def test_a_stop_among_many_messages_counts_at_once() -> None:
    world = task_with_messages()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert len(world.history()) < COUNT


def test_the_cache_is_bounded() -> None:
    cache = ItemCache(max_bytes=100 + 4 * ITEM_BYTES)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    items = [UserMessage(item_id=f"i{n}", created_at=start + timedelta(seconds=n), text="x") for n in range(5)]
    for item in items[:4]:
        cache.add("task", "g", item, 25)
    assert cache.get("task", "g", "i0") == items[0]
    cache.add("task", "g", items[4], 25)
    assert [cache.get("task", "g", f"i{n}") is not None for n in range(5)] == [True, False, True, True, True]
    cache.add("task", "g", items[4], 101 + 4 * ITEM_BYTES)
    assert not any(cache.get("task", "g", f"i{n}") for n in range(5))
    assert cache.get("task", "other", "i0") is None
