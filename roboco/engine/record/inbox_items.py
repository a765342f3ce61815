"""inbox_items: the pending items of a task's inbox, and the record of applied ones.

    inbox/ID.json ─► step with the item's id ─► applied/ID.json ─► no inbox/ID.json ─► not in Redis' inbox
    (accepted)       (append: applied)          (put)              (delete)            (remove)

If the worker dies between the step and the last arrow, the next pass finds the item in a step and repeats the rest. The
file below `applied/` stays: it makes a late repetition of the item harmless.

The order in which items are applied depends on the content of all of them. So a process reads each item once, and keeps
it in its cache. Because another worker may have applied a cached item, or may have died after it deleted the file, a
LIST of the inbox confirms the cached ones. Cost of a pass, for each of its moves: a GET for each item if at most
MAX_UNCACHED_ITEMS wait. Otherwise a LIST for each 1,000 items, and a GET for each item that this process has not read,
of which READERS run in parallel.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from roboco.domain.history.state import item_ids_of
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Item,
    Pause,
    UnknownResolution,
    parse_item,
    superseded,
)
from roboco.domain.paths import applied_path, inbox_path, item_path
from roboco.engine.engine import Engine
from roboco.ports.task_store import Snapshot

MAX_UNCACHED_ITEMS = 8
"""Waiting items up to which each one is read again: fewer requests, and cheaper ones, than a LIST."""
READERS = 8
"""Items that are read in parallel."""


def pending_items(engine: Engine, task_id: str, task: Snapshot) -> tuple[Item, ...]:
    """Return the items that still count, oldest first, and mark the others as applied.

    A closed task has none, though Redis may have lost its end: their senders get UsageError.
    """
    found: list[Item] = []
    if task.item_ids and engine.summaries.is_closed(task_id):
        for item_id in task.item_ids:
            engine.inbox.remove(task_id, item_id)
        return ()
    items = _read_items(engine, task_id, task)
    for item_id in task.item_ids:
        item = items.get(item_id)
        if item is None:
            engine.inbox.remove(task_id, item_id)
        elif _is_applied(engine, task_id, item_id, task) or _arrived_late(item, task):
            mark_applied(engine, task_id, item_id, task.seq - 1)
        else:
            found.append(item)
    ended = superseded(found)
    for item_id in ended:
        _mark_pause_applied(engine, task_id, item_id, task.seq - 1)
    rest = [item for item in found if item.item_id not in ended]
    return tuple(sorted(rest, key=lambda item: (item.created_at, item.item_id)))


def _read_items(engine: Engine, task_id: str, task: Snapshot) -> dict[str, Item | None]:
    """Return the waiting items by id, with None for an item that is not in the workspace."""
    if len(task.item_ids) <= MAX_UNCACHED_ITEMS:
        return {item_id: _read_item(engine, task_id, task.generation, item_id) for item_id in task.item_ids}
    present = {name.removesuffix(".json") for name in engine.files.names(inbox_path(task_id))}
    cached = {
        item_id: engine.item_cache.get(task_id, task.generation, item_id) if item_id in present else None
        for item_id in task.item_ids
    }
    unread = [item_id for item_id, item in cached.items() if item is None]
    return cached | dict(zip(unread, _read_in_parallel(engine, task_id, task.generation, unread), strict=True))


def _read_in_parallel(engine: Engine, task_id: str, generation: str, item_ids: Iterable[str]) -> list[Item | None]:
    pool = ThreadPoolExecutor(READERS, thread_name_prefix="roboco-inbox")
    try:
        return list(pool.map(partial(_read_item, engine, task_id, generation), item_ids))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a time limit may have ended the wait


def _read_item(engine: Engine, task_id: str, generation: str, item_id: str) -> Item | None:
    data = engine.files.get(item_path(task_id, item_id))
    if data is None:
        return None
    item = parse_item(data)
    engine.item_cache.add(task_id, generation, item, len(data))
    return item


def _is_applied(engine: Engine, task_id: str, item_id: str, task: Snapshot) -> bool:
    """Return True if a step holds the item. In a fork, its own steps count only, not those of its source."""
    if item_id not in task.state.recent_item_ids:
        return False
    fork = engine.frozen_teams.fork_of(task_id)
    if fork is None:
        return True
    return any(item_id in item_ids_of(step) for step in engine.histories.read(task_id, fork.seq + 1))


def _arrived_late(item: Item, task: Snapshot) -> bool:
    """Return True if the item is about a call, or pauses before a step, that the history has passed already."""
    if isinstance(item, Pause):
        return item.at is not None and item.at < task.seq
    return isinstance(item, ExternalToolResult | ApprovalDecision | UnknownResolution) and item.at_seq < task.seq - 1


def _mark_pause_applied(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Mark the pause as applied, even if its file is missing: a late repetition is recognized then."""
    if engine.files.get(item_path(task_id, item_id)) is None:
        if engine.files.get(applied_path(task_id, item_id)) is None:
            taken = Pause(item_id=item_id, created_at=engine.now(), applied_at_seq=seq)
            engine.files.put(applied_path(task_id, item_id), taken.model_dump_json().encode())
        engine.inbox.remove(task_id, item_id)
    else:
        mark_applied(engine, task_id, item_id, seq)


def mark_applied(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Mark the item as applied, or as superseded, at the position `seq` or before. Remove it from the inbox."""
    data = engine.files.get(item_path(task_id, item_id))
    if data is not None:
        taken = parse_item(data).model_copy(update={"applied_at_seq": seq})
        engine.files.put(applied_path(task_id, item_id), taken.model_dump_json().encode())
        engine.files.delete(item_path(task_id, item_id))
    engine.inbox.remove(task_id, item_id)
