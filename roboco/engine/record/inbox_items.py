"""Items of a task's inbox: which still wait, and what becomes of those that were taken over."""

from roboco.domain.history.state import items_of
from roboco.domain.inbox.item import Answer, Hold, Item, Resolution, Verdict, over, read_item
from roboco.domain.paths import inbox_path, item_path, taken_path
from roboco.engine.engine import Engine
from roboco.engine.record.summaries import has_ended
from roboco.ports import Snapshot


def waiting(engine: Engine, task_id: str, task: Snapshot) -> tuple[Item, ...]:
    """The items that still count, oldest first; the others are settled on the way.

    A task whose end is final takes none, though Redis may have lost the end: who sent them is told so.
    """
    found: list[Item] = []
    if task.item_ids and has_ended(engine, task_id):
        for item_id in task.item_ids:
            engine.inbox.forget(task_id, item_id)
        return ()
    for item_id in task.item_ids:
        data = engine.files.get(item_path(task_id, item_id))
        if data is None:
            engine.inbox.forget(task_id, item_id)
            continue
        item = read_item(data)
        if _is_a_step(engine, task_id, item_id, task) or _comes_late(item, task):
            settle(engine, task_id, item_id, task.seq - 1)
        else:
            found.append(item)
    ended = over(found)
    for item_id in ended:
        _settle_hold(engine, task_id, item_id, task.seq - 1)
    rest = [item for item in found if item.item_id not in ended]
    return tuple(sorted(rest, key=lambda item: (item.created_at, item.item_id)))


def _is_a_step(engine: Engine, task_id: str, item_id: str, task: Snapshot) -> bool:
    """Whether the item was taken over; of a fork only its own steps count, for those before are another task's."""
    if item_id not in task.state.items:
        return False
    fork = engine.teams.fork(task_id)
    return fork is None or any(item_id in items_of(step) for step in task.tail if step.seq > fork.seq)


def _comes_late(item: Item, task: Snapshot) -> bool:
    """Return True if the item is about a call, or holds a step, that is a step of the history already."""
    if isinstance(item, Hold):
        return item.at is not None and item.at < task.seq
    return isinstance(item, Answer | Verdict | Resolution) and item.at_seq < task.seq - 1


def _settle_hold(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Note that the hold counts no more, also if its file is not there: one that comes again is known then."""
    if engine.files.get(item_path(task_id, item_id)) is None:
        if engine.files.get(taken_path(task_id, item_id)) is None:
            taken = Hold(item_id=item_id, created_at=engine.now(), taken_at_seq=seq)
            engine.files.put(taken_path(task_id, item_id), taken.model_dump_json().encode())
        engine.inbox.forget(task_id, item_id)
    else:
        settle(engine, task_id, item_id, seq)


def settle(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Note that the item was taken over or counts no more, not later than at `seq`."""
    data = engine.files.get(item_path(task_id, item_id))
    if data is not None:
        taken = read_item(data).model_copy(update={"taken_at_seq": seq})
        engine.files.put(taken_path(task_id, item_id), taken.model_dump_json().encode())
        engine.files.delete(item_path(task_id, item_id))
    engine.inbox.forget(task_id, item_id)


def readd_from_workspace(engine: Engine, task_id: str) -> bool:
    """Note in the board's inbox what the workspace's holds, since Redis may have lost it; whether there is any.

    A task whose end is final takes none.
    """
    names = engine.files.names(inbox_path(task_id))
    if names and has_ended(engine, task_id):
        return False
    engine.inbox.add(task_id, [name.removesuffix(".json") for name in names])
    return bool(names)
