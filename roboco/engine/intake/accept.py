"""receive: take in what comes for a task from outside.

    inbox/ID.json ─► board's inbox ─► not ended, marker open ══ accepted ══► schedule ─► doorbell
    (create)         (add)          (load, get)

It becomes a step, or a change of what the task may do, exactly once, however often it is sent.

A task may end at the same moment. The board refuses an end that was decided without an item of its inbox, so an item
that is noted before the end is seen, and one that is noted after it is refused here. If Redis loses the end, the open
marker decides: the coordinator writes it as closing before it looks whether the board still has the end, and this
module notes the item before it reads the marker. One of the two sees the other.
"""

import logging

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import (
    Answer,
    Hold,
    Item,
    Message,
    Resolution,
    Resume,
    Stop,
    Verdict,
    is_urgent,
    read_item,
)
from roboco.domain.paths import CLOSED, OPENED, inbox_path, item_path, open_path, taken_path
from roboco.engine.engine import Engine
from roboco.engine.record.summaries import has_ended, stored_summary
from roboco.errors import TransientError, UsageError
from roboco.ports import Phase

_log = logging.getLogger(__name__)

MAX_ITEMS = 1000
"""How many items an inbox holds before it refuses messages. Senders at the same moment may exceed it."""
MAX_CONTROLS = 100
"""How many controls an inbox holds beside that, and how many stops and resumptions beside those.

So neither messages nor pauses, which stay while they count, keep a task from continuing or ending.
"""
ABOUT_CALLS = (Answer, Verdict, Resolution)
"""Items on open calls are as many as the calls at most, and a task may wait for nothing else: they are not limited."""


def receive(engine: Engine, task_id: str, item: Item, limited: bool = True) -> None:
    """Accept the item. UsageError for anything but a stop, if the task has ended or is not known.

    A stop for a task that is not known yet is kept, and honoured when it is submitted; one for a task that
    has ended changes nothing. UsageError if something else was accepted under the item's id: that stands, and is
    announced once more. If `limited`, UsageError if too many items wait already.
    """
    check_task_id(task_id)
    before = stored(engine, task_id, item.item_id)
    if before is not None and before.taken_at_seq is not None:
        check_same(item, before)
        return
    if before is None:
        if isinstance(item, Message) and not _may_come(engine, task_id, item):
            return
        if limited and not isinstance(item, ABOUT_CALLS):
            _check_room(engine, task_id, item)
        if not engine.files.create(item_path(task_id, item.item_id), item.model_dump_json().encode()):
            before = stored(engine, task_id, item.item_id)
    _announce(engine, task_id, before or item)
    check_same(item, before)


def _announce(engine: Engine, task_id: str, item: Item) -> None:
    """Have the item that was stored seen to."""
    if not _is_open(engine, task_id):
        _give_back(engine, task_id, item)
        return
    try:
        if _was_taken(engine, task_id, item):
            engine.files.delete(item_path(task_id, item.item_id))
            return
        pauses = isinstance(item, Hold) and item.until == 0
        engine.inbox.add(task_id, [item.item_id], is_urgent(item), hold=pauses)
        task = engine.board.load(task_id, 1)
        ended = task is not None and task.phase is Phase.END
        if ended or not _is_open(engine, task_id):
            engine.inbox.forget(task_id, item.item_id)
            _give_back(engine, task_id, item, ended)
            return
        engine.schedule.put(task_id)
    except TransientError as error:
        raise TransientError(f"{error}; nothing is lost if it is sent again with item id {item.item_id!r}") from error
    try:
        engine.dispatcher.advance(task_id)
    except TransientError as error:
        _log.warning("item %s is accepted, and the sweeper will see to it: %s", item.item_id, error)


def _was_taken(engine: Engine, task_id: str, item: Item) -> bool:
    """Whether the item was taken over meanwhile, which a late repetition must not undo."""
    return engine.files.get(taken_path(task_id, item.item_id)) is not None


def stored(engine: Engine, task_id: str, item_id: str) -> Item | None:
    """The item of this id, taken over or not; None if there is none.

    A repetition that the store carries out late may leave the item in the inbox again: what was taken over counts.
    """
    data = engine.files.get(taken_path(task_id, item_id)) or engine.files.get(item_path(task_id, item_id))
    return None if data is None else read_item(data)


def check_same(item: Item, before: Item | None) -> None:
    """UsageError if something else was accepted before under the item's id: a call has one answer, for instance."""
    if before is None or _said(before) == _said(item):
        return
    if isinstance(item, ABOUT_CALLS) and isinstance(before, ABOUT_CALLS) and item.call_id == before.call_id:
        raise UsageError(f"call_id: call {item.call_id!r} was answered before, in another way; its first answer stands")
    raise UsageError(f"item_id: {item.item_id!r} was sent before and says something else; give each thing its own id")


def _said(item: Item) -> dict[str, object]:
    return item.model_dump(mode="json", exclude={"created_at", "taken_at_seq", "at_seq", "until", "ends"})


def check_open(engine: Engine, task_id: str) -> None:
    """UsageError if there is no such task, or if it has ended."""
    if not _is_open(engine, task_id):
        raise UsageError(_closed(engine, task_id))


def _may_come(engine: Engine, task_id: str, message: Message) -> bool:
    """Whether the message is to be taken in: not if that was done meanwhile. UsageError if it cannot be."""
    if not _is_open(engine, task_id):
        _refuse(engine, task_id, message)
        return False
    if message.agent is not None:
        engine.teams.get(task_id).check_agent(message.agent)
    return True


def _check_room(engine: Engine, task_id: str, item: Item) -> None:
    most = MAX_ITEMS
    if not isinstance(item, Message) or item.interrupts:
        most += MAX_CONTROLS
    if isinstance(item, Stop | Resume):
        most += MAX_CONTROLS
    if (waiting := engine.inbox.count(task_id)) >= most:
        raise UsageError(
            f"task {task_id!r} has {waiting} items in its inbox, at most {most} may wait; "
            "send this again when the task has taken some of them"
        )


def _is_open(engine: Engine, task_id: str) -> bool:
    """Return True if the task takes items. TransientError while it is being closed, which may be taken back."""
    marker = engine.files.get(open_path(task_id))
    if marker in (None, OPENED, CLOSED):
        return marker == OPENED
    raise TransientError(f"task {task_id!r} is being closed; send this again to learn whether it has ended")


def _give_back(engine: Engine, task_id: str, item: Item, ended: bool = False) -> None:
    """The task ended, or is not there: it is refused, but a stop stays for a task that is yet to come."""
    if not isinstance(item, Stop):
        engine.files.delete(item_path(task_id, item.item_id))
        _refuse(engine, task_id, item)
    elif ended or has_ended(engine, task_id):
        engine.files.delete(item_path(task_id, item.item_id))
    elif len(engine.files.names(inbox_path(task_id))) > MAX_CONTROLS:
        engine.files.delete(item_path(task_id, item.item_id))
        raise UsageError(f"task {task_id!r} is not submitted yet and already has {MAX_CONTROLS} stops; send no more")


def _refuse(engine: Engine, task_id: str, item: Item) -> None:
    """UsageError, unless the item came twice and was taken over before the task ended."""
    if not _was_taken(engine, task_id, item):
        raise UsageError(_closed(engine, task_id))


def _closed(engine: Engine, task_id: str) -> str:
    summary = stored_summary(engine, task_id)
    if summary is None:
        return f"no task {task_id!r} in this workspace"
    status = summary.status
    told = f"has ended ({status})" if status.ended else "has ended"
    return f"task {task_id!r} {told}, nothing more happens to it; submit a new one, or fork it"
