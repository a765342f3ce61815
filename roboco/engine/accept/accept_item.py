"""accept_item: accept an inbox item for a task.

    inbox/ID.json ─► Redis inbox ─► task has not ended, marker is open ══ accepted ══► schedule ─► wake-up message
    (create)         (add)          (load)              (get)                          (put)

The coordinator applies an accepted item exactly once, as a step or as a change of the task's limits, however often the
client sends it. The item's id makes the first write a create: the first content under an id counts.

If the client dies before the item is in Redis, the item is not accepted, and the client sends it again. The sweeper
also finds such items, in its passes over a waiting task: after an hour, and less often later, but once a day. If the
client dies after that, the coordinator finds the item in its next pass, which the schedule or the next message causes.

The wake-up message makes a pass at once, and the sweeper's check follows later. If both were due at once, two passes
would read the workspace and append the same step. If the message cannot be sent, the check is due at once.

A task may end at the same moment. Redis refuses an end that was decided without an item of its inbox. So an item that
is added before the end is applied, and this module refuses one that is added after it. If Redis loses the end, the open
marker decides: the coordinator changes it to closing before it reads the end from Redis again, and this module adds the
item before it reads the marker. So at least one of the two sees the other's write.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import (
    ApprovalDecision,
    ExternalToolResult,
    Item,
    Pause,
    Resume,
    Stop,
    UnknownResolution,
    UserMessage,
    interrupts_work,
    parse_item,
)
from roboco.domain.paths import CLOSED, OPENED, applied_path, inbox_path, item_path, open_marker_path
from roboco.domain.status import TaskStatus
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords
from roboco.engine.retry import TaskClosing, after_close
from roboco.engine.workspace_records import erased_error
from roboco.errors import AlreadyEnded, StateConflict, TransientError, UsageError
from roboco.ports.snapshot import Phase, Snapshot

_log = logging.getLogger(__name__)

CHECK_DELAY = 2.0
"""Seconds until the sweeper checks whether the wake-up message of an item was lost: longer than a pass takes as a rule.

An item that ends work is checked at once, so that it does not wait behind other messages of the coordinators.
"""
MAX_ITEMS = 200
"""The number of items at which an inbox refuses messages. Clients that send at the same moment may exceed it."""
MAX_CONTROLS = 100
"""The number of pauses, interrupts and limit changes beyond MAX_ITEMS, and of stops and resumptions beyond these.

So neither messages nor pauses, which stay in the inbox while they count, keep a task from continuing or ending.
"""
CLOSING_TIMEOUT = 1.0
"""Seconds to wait for a task that is closing. They are few: a coordinator that stops a sub-task waits, too."""
CALL_ITEMS = (ExternalToolResult, ApprovalDecision, UnknownResolution)
"""Items about open calls. They are not limited: each call has few, and a task may wait for nothing else."""


IdLookup = Literal["needed", "none found", "new id"]
"""Whether `accept_item` looks up the item's id, to find out whether it was sent before.

* `needed`: It does so before it stores the item, and again after it.
* `none found`: It does so only after it has stored the item. Its caller has just looked up the id, and found no item.
* `new id`: It never does so. Its caller has just drawn the id at random, so only this call stores an item with this id.
  The store may carry out that write once more, when the item is applied: `inbox_items` and `restore_inbox` find that.
"""


def accept_item(
    engine: Engine, task_id: str, item: Item, enforce_capacity: bool = True, lookup: IdLookup = "needed"
) -> None:
    """Accept the item and wake a coordinator. Raise UsageError if the task has ended or is unknown, except for a stop.

    A stop for an unknown task is stored, and applied when the task is submitted. A stop for an ended task changes
    nothing. If different content was accepted under the item's id, announce that again and raise UsageError. If
    `enforce_capacity`, raise UsageError if too many items wait already.

    Cost: two requests to the workspace, one after the other, for an open task and a new id: the item is stored, and the
    marker is read after the item is in Redis. A `lookup` takes two more, and another one after the write.
    """
    check_task_id(task_id)
    stored_before = stored_item(engine.workspace, task_id, item.item_id) if lookup == "needed" else None
    if stored_before is not None and stored_before.applied_at_seq is not None:
        check_idempotent(item, stored_before)
        return
    if stored_before is None:
        if isinstance(item, UserMessage) and not _is_admissible(engine, task_id, item):
            return
        if enforce_capacity and not isinstance(item, CALL_ITEMS):
            _check_inbox_capacity(engine.tasks, task_id, item)
    repeated = stored_before is not None
    with naming_id(item):
        if stored_before is None and not _store(engine.workspace, task_id, item):
            stored_before = stored_item(engine.workspace, task_id, item.item_id)
            repeated = True
        applied = _add_to_inbox(engine, task_id, stored_before or item, repeated, may_be_applied=lookup != "new id")
    check_idempotent(item, applied or stored_before)


@contextmanager
def naming_id(item: Item) -> Iterator[None]:
    """Name the item's id in TransientError: the item may be stored, and only the same id keeps it from counting twice.

    A caller that drew no id does not know the one that was drawn for it.
    """
    try:
        yield
    except TransientError as error:
        raise TransientError(f"{error}; send the item again with item id {item.item_id!r}") from error


def _store(workspace: WorkspaceRecords, task_id: str, item: Item) -> bool:
    """Store the item. Return False if there is a pending one of this id."""
    return workspace.files.create(item_path(task_id, item.item_id), item.model_dump_json().encode())


def _add_to_inbox(engine: Engine, task_id: str, item: Item, repeated: bool, may_be_applied: bool) -> Item | None:
    """Add the stored item to the inbox in Redis and wake a coordinator. Reject it if the task has ended.

    An item that is `repeated` ends only the work that was pending before it was found not to be applied, neither by a
    mark nor by a step, which a pass marks later: a coordinator may apply it meanwhile, and the work after that is not
    to be ended. If other work has begun, and the item is still not applied, the coordinator ends that work.

    If a coordinator has applied an item of this id meanwhile, return that one, and remove the stored one: it is a late
    repetition.
    """
    before = engine.tasks.task_store.load(task_id, 1)
    if not _may_be_open(engine, task_id, before):
        return _reject(engine, task_id, item, repeated)
    if may_be_applied and (applied := _applied_item(engine.workspace, task_id, item.item_id)) is not None:
        engine.workspace.files.delete(item_path(task_id, item.item_id))
        return applied
    pauses = isinstance(item, Pause) and item.until == 0
    epoch = before.position.epoch if before is not None and repeated and not pauses else None
    in_step = repeated and before is not None and item.item_id in before.state.recent_item_ids
    ends_work = interrupts_work(item) and not in_step
    engine.tasks.task_store.add_items(task_id, [item.item_id], ends_work, epoch, block_claim=pauses)
    task = engine.tasks.task_store.load(task_id, 1)
    ended = task is not None and task.position.phase is Phase.END
    if ended or not _is_open(engine, task_id):
        return _reject(engine, task_id, item, repeated, ended)
    engine.tasks.schedule.schedule_no_later_than(task_id, 0.0 if interrupts_work(item) else CHECK_DELAY)
    _wake_coordinator(engine, task_id, item)
    return None


def _wake_coordinator(engine: Engine, task_id: str, item: Item) -> None:
    """Send the wake-up message. If the broker does not answer, let the sweeper check the task at once."""
    try:
        engine.services.dispatcher.advance(task_id)
    except TransientError as error:
        _log.warning("item %s is accepted, and the sweeper will have it applied: %s", item.item_id, error)
        with suppress(TransientError):  # it is checked after CHECK_DELAY
            engine.tasks.schedule.set(task_id)


def stored_item(workspace: WorkspaceRecords, task_id: str, item_id: str) -> Item | None:
    """Return the item of this id, applied or pending, or None if there is none.

    A coordinator stores an item as applied, and then deletes the pending one. So the pending one is read first: if a
    coordinator has deleted it, the applied one is there. A write that the store carries out late may put an applied
    item back into the inbox: the applied one counts. Cost: two reads, one after the other.
    """
    pending = workspace.files.get(item_path(task_id, item_id))
    applied = _applied_item(workspace, task_id, item_id)
    return parse_item(pending) if applied is None and pending is not None else applied


def stored_pauses(workspace: WorkspaceRecords, task_id: str) -> list[Pause]:
    """Return the pauses in the inbox. Cost: a LIST of it, and a GET for each item."""
    paths = [f"{inbox_path(task_id)}{name}" for name in workspace.files.names(inbox_path(task_id))]
    items = [parse_item(data) for data in map(workspace.files.get, paths) if data is not None]
    return [item for item in items if isinstance(item, Pause)]


def _applied_item(workspace: WorkspaceRecords, task_id: str, item_id: str) -> Item | None:
    data = workspace.files.get(applied_path(task_id, item_id))
    return None if data is None else parse_item(data)


def check_idempotent(item: Item, stored_before: Item | None) -> None:
    """Raise UsageError if different content was accepted before under the item's id."""
    if stored_before is None or _content_of(stored_before) == _content_of(item):
        return
    if isinstance(item, CALL_ITEMS) and isinstance(stored_before, CALL_ITEMS) and item.call_id == stored_before.call_id:
        if isinstance(stored_before, ApprovalDecision) and stored_before.expired is not None:
            at = f"{stored_before.created_at:%Y-%m-%d %H:%M:%S} UTC"
            raise StateConflict(f"call_id: call {item.call_id!r} expired at {at}, before a person decided")
        raise StateConflict(
            f"call_id: call {item.call_id!r} was answered before, in another way; its first answer counts"
        )
    raise StateConflict(
        f"item_id: {item.item_id!r} was sent before with different content; use another id for each item"
    )


def _content_of(item: Item) -> dict[str, object]:
    return item.model_dump(mode="json", exclude={"created_at", "by", "applied_at_seq", "at_seq", "until", "supersedes"})


def check_open(engine: Engine, task_id: str) -> None:
    """Raise UsageError if there is no such task, or if it has ended."""
    if not _seems_open(engine, task_id):
        raise _closed_error(engine, task_id)


def _is_admissible(engine: Engine, task_id: str, message: UserMessage) -> bool:
    """Return True if the message can be accepted, False if it was applied before the task ended."""
    if not _seems_open(engine, task_id):
        check_idempotent(message, _require_applied(engine, task_id, message))
        return False
    if message.agent is not None or message.attachments.get("client_tools"):
        engine.workspace.frozen_teams.get(task_id).check_message(message.agent, message.attachments)
    return True


def _check_inbox_capacity(tasks: TaskStores, task_id: str, item: Item) -> None:
    max_items = MAX_ITEMS
    if not isinstance(item, UserMessage) or item.interrupts:
        max_items += MAX_CONTROLS
    if isinstance(item, Stop | Resume):
        max_items += MAX_CONTROLS
    if (waiting := tasks.task_store.count_items(task_id)) >= max_items:
        raise StateConflict(
            f"task {task_id!r} has {waiting} items in its inbox, at most {max_items} may wait; "
            "send this again when the task has applied some of them"
        )


def _seems_open(engine: Engine, task_id: str) -> bool:
    """Return False if the task takes no items: an early refusal, before anything is written.

    Redis answers for a task that it holds and that has not ended, which saves a request to the workspace. If Redis has
    lost the end, the marker decides: it is read in any case after the item was added.
    """
    return _may_be_open(engine, task_id, engine.tasks.task_store.load(task_id, 1))


def _may_be_open(engine: Engine, task_id: str, task: Snapshot | None) -> bool:
    return (task is not None and task.position.phase is not Phase.END) or _is_open(engine, task_id)


def _is_open(engine: Engine, task_id: str) -> bool:
    """Return True if the task takes items.

    A task that is closing may be reopened. That takes a few requests to the workspace, for which this waits. Raise
    TransientError if it takes longer: the coordinator has died.
    """
    return after_close(engine.clock, lambda: _takes_items(engine.workspace, task_id), CLOSING_TIMEOUT)


def _takes_items(workspace: WorkspaceRecords, task_id: str) -> bool:
    marker = workspace.files.get(open_marker_path(task_id))
    if marker in (None, OPENED, CLOSED):
        return marker == OPENED
    raise TaskClosing(f"task {task_id!r} is being closed; send this again to learn whether it has ended")


def _reject(engine: Engine, task_id: str, item: Item, repeated: bool, ended: bool = False) -> Item | None:
    """Delete the item of an ended or unknown task and raise UsageError. Keep a stop until its task is submitted.

    If an item of this id was applied before the task ended, return that one. Keep an item that is `repeated` if the
    task did not complete: an earlier call may have accepted it, and its receipt says that it has expired. A task
    completes only once all accepted items are applied.
    """
    completed = _status_of(engine, task_id) in (None, TaskStatus.COMPLETED)
    if repeated and not completed and not isinstance(item, Stop):
        return _require_applied(engine, task_id, item)
    engine.tasks.task_store.remove_item(task_id, item.item_id)
    if not isinstance(item, Stop):
        engine.workspace.files.delete(item_path(task_id, item.item_id))
        return _require_applied(engine, task_id, item)
    if ended or engine.workspace.summaries.is_closed(task_id):
        engine.workspace.files.delete(item_path(task_id, item.item_id))
    elif (erased := erased_error(engine.workspace.files, task_id)) is not None:
        engine.workspace.files.delete(item_path(task_id, item.item_id))
        raise erased
    elif len(engine.workspace.files.names(inbox_path(task_id))) > MAX_CONTROLS:
        engine.workspace.files.delete(item_path(task_id, item.item_id))
        raise StateConflict(f"task {task_id!r} is not submitted yet and already has {MAX_CONTROLS} stops; send no more")
    return None


def _require_applied(engine: Engine, task_id: str, item: Item) -> Item:
    """Return the item of this id that was applied before the task ended. Raise UsageError if there is none."""
    applied = _applied_item(engine.workspace, task_id, item.item_id)
    if applied is None:
        raise _closed_error(engine, task_id)
    return applied


def _closed_error(engine: Engine, task_id: str) -> UsageError:
    """Return the error of a task that takes no items: it has ended, or there is none."""
    status = _status_of(engine, task_id)
    if status is None:
        return engine.workspace.summaries.missing(task_id)
    end = f"has ended ({status})" if status.ended else "has ended"
    remedy = "retry it, or fork it" if status is TaskStatus.FAILED else "submit a new task, or fork this one"
    return AlreadyEnded(f"task {task_id!r} {end} and takes no more items; {remedy}")


def _status_of(engine: Engine, task_id: str) -> TaskStatus | None:
    """Return the status of the task, or None if there is none."""
    summary = engine.workspace.summaries.get(task_id)
    if (
        summary is not None
        and not summary.status.ended
        and (task := engine.tasks.task_store.load(task_id, 1)) is not None
    ):
        return task.position.status
    return None if summary is None else summary.status
