"""inbox_items: the pending items of a task's inbox, and the record of applied ones.

    inbox/ID.json ─► step with the item's id ─► applied/ID.json ─► no inbox/ID.json ─► not in Redis' inbox
    (accepted)       (append: applied)          (put)              (delete)            (remove)

If the worker dies between the step and the last arrow, the next pass finds the item in a step and repeats the rest. The
file below `applied/` stays: it makes a late repetition of the item harmless. A late write of the store may create
`inbox/ID.json` again; `restore_inbox` removes it before it is added to Redis.

The order in which items are applied depends on the content of all of them. Cost of a pass, for each of its moves with
waiting items: a GET of the marker and, at the same time, one for each item. Few may wait (`accept_item.py`).
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from roboco.domain.history.step import TaskStep
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Interrupt,
    Item,
    Pause,
    Resume,
    UnknownResolution,
    UserMessage,
    parse_item,
    superseded,
)
from roboco.domain.paths import applied_path, item_path, open_marker_path
from roboco.domain.status import TaskStatus
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.ports.snapshot import Phase, Snapshot


class AppliedItems:
    """Items that a pass has appended as a step, and has not marked as applied yet.

    A pass marks them after it has dispatched the next work, which therefore does not wait for two more requests to the
    workspace. The step is committed with the ids of its items, and the state of the task keeps the newest ones. So if
    the worker dies before it marks them, the next pass finds them in the inbox and in the state, and marks them.
    """

    def __init__(self, engine: Engine, task_id: str) -> None:
        self._engine = engine
        self._task_id = task_id
        self._items: dict[str, tuple[Item | None, int]] = {}

    @property
    def ids(self) -> Collection[str]:
        """The ids of the items."""
        return self._items.keys()

    def add(self, step: TaskStep, item_ids: Iterable[str], read: Iterable[Item]) -> None:
        """Add the items of a step. `read` are items that the pass has read."""
        by_id = {item.item_id: item for item in read}
        self._items.update((item_id, (by_id.get(item_id), step.seq)) for item_id in item_ids)

    def mark(self) -> None:
        """Mark the items as applied. Cost: a PUT and a DELETE for each item that the pass has read."""
        for item_id, (item, seq) in self._items.items():
            if item is None:
                _mark_applied(self._engine, self._task_id, item_id, seq)
            else:
                _mark(self._engine, self._task_id, item, seq)
        self._items.clear()


def pending_items(engine: Engine, task_id: str, task: Snapshot, applied: Collection[str] = ()) -> tuple[Item, ...]:
    """Return the items that still count, oldest first, and mark the others as applied, but not those in `applied`.

    A resumption is among them in the pass that marks it, so that the event of the new status can name its caller.
    A closed task has none, though Redis may have lost its end: their senders get UsageError.
    """
    found: list[Item] = []
    waiting = [item_id for item_id in task.item_ids if item_id not in applied]
    if not waiting:
        return ()
    items = _read_items(engine.workspace, task_id, waiting)
    if items is None:
        for item_id in waiting:
            engine.tasks.task_store.remove_item(task_id, item_id)
        return ()
    for item_id in waiting:
        item = items.get(item_id)
        if item is None:
            engine.tasks.task_store.remove_item(task_id, item_id)
        elif _is_applied(engine.workspace, task_id, item_id, task) or _arrived_late(item, task):
            _mark_applied(engine, task_id, item_id, task.position.seq - 1)
        else:
            found.append(item)
    ended = superseded(found)
    for item_id in ended:
        _mark_pause_applied(engine, task_id, item_id, task.position.seq - 1)
    rest = [item for item in found if item.item_id not in ended or isinstance(item, Resume)]
    rest.sort(key=lambda item: (item.created_at, item.item_id))
    return _without_vain_interrupts(engine, task_id, task, rest)


def _without_vain_interrupts(engine: Engine, task_id: str, task: Snapshot, items: list[Item]) -> tuple[Item, ...]:
    """Mark interruptions of a task that waits for its user anyway, and return the other items.

    An interruption after a message counts: the message lets the task continue. So does one of a task that Redis has set
    back, and that has continued. Cost: one read of the history for a task with such an interruption.
    """
    if (task.position.phase, task.position.status) != (Phase.WAIT, TaskStatus.USER_TURN):
        return tuple(items)
    before_messages = takewhile(lambda item: not isinstance(item, UserMessage), items)
    vain = [item.item_id for item in before_messages if isinstance(item, Interrupt)]
    if vain and next(engine.workspace.histories.read(task_id, task.position.seq), None) is not None:
        return tuple(items)
    for item_id in vain:
        _mark_applied(engine, task_id, item_id, task.position.seq - 1)
    return tuple(item for item in items if item.item_id not in vain)


def _read_items(workspace: WorkspaceRecords, task_id: str, waiting: Sequence[str]) -> dict[str, Item | None] | None:
    """Return the waiting items by id, with None for an item that is not in the workspace, or None for a closed task."""
    paths = [open_marker_path(task_id), *(item_path(task_id, item_id) for item_id in waiting)]
    marker, *stored = workspace.files.get_many(paths)
    if workspace.summaries.is_closed_by(task_id, marker):
        return None
    found = [None if data is None else parse_item(data) for data in stored]
    return dict(zip(waiting, found, strict=True))


def _is_applied(workspace: WorkspaceRecords, task_id: str, item_id: str, task: Snapshot) -> bool:
    """Return True if a step holds the item. In a fork, its own steps count only, not those of its source."""
    if item_id not in task.state.recent_item_ids:
        return False
    fork = workspace.frozen_teams.own_fork_of(task_id, task.steps.first)
    if fork is None:
        return True
    return any(item_id in step.item_ids for step in workspace.histories.read(task_id, fork.seq + 1))


def _arrived_late(item: Item, task: Snapshot) -> bool:
    """Return True if the item is about a call that the history has passed already."""
    if isinstance(item, ExternalToolResult | ApprovalDecision | UnknownResolution):
        return item.at_seq < task.position.seq - 1
    return False


def _mark_pause_applied(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Mark the pause as applied, even if its file is missing: a late repetition is recognized then."""
    if engine.workspace.files.get(item_path(task_id, item_id)) is None:
        if engine.workspace.files.get(applied_path(task_id, item_id)) is None:
            taken = Pause(item_id=item_id, created_at=engine.now(), applied_at_seq=seq)
            engine.workspace.files.put(applied_path(task_id, item_id), taken.model_dump_json().encode())
        engine.tasks.task_store.remove_item(task_id, item_id)
    else:
        _mark_applied(engine, task_id, item_id, seq)


def _mark_applied(engine: Engine, task_id: str, item_id: str, seq: int) -> None:
    """Mark the item as applied, or as superseded, at the position `seq` or before. Remove it from the inbox."""
    data = engine.workspace.files.get(item_path(task_id, item_id))
    if data is None:
        engine.tasks.task_store.remove_item(task_id, item_id)
    else:
        _mark(engine, task_id, parse_item(data), seq)


def _mark(engine: Engine, task_id: str, item: Item, seq: int) -> None:
    """Store the item as applied, and remove it from the inbox. A repetition is harmless."""
    taken = item.model_copy(update={"applied_at_seq": seq})
    engine.workspace.files.put(applied_path(task_id, item.item_id), taken.model_dump_json().encode())
    engine.workspace.files.delete(item_path(task_id, item.item_id))
    engine.tasks.task_store.remove_item(task_id, item.item_id)
