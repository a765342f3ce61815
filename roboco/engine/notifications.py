"""notifications: receivers are notified when a task has ended or waits.

    status ─► notification ─► marker ─► schedule ─► wake-up message ─► delivery ─► result ─► no marker
              (create)        (put)                                    (outside)   (put)

Each pass of the coordinator over a waiting or ended task stores its notifications if they are missing. If the worker
dies after the status has changed, the sweeper repeats the pass, and a task is closed only after its notifications are
stored. From then on the marker makes the sweeper dispatch the delivery (notification_delivery.py) until none is left.

Each receiver gets its notifications in the order of generation and epoch, which fence the decisions about the task. If
a wait ends before a pass has stored its notification, there is none.
"""

import logging

from roboco.domain.dead_letter import letter_id_of
from roboco.domain.history.step import last_said
from roboco.domain.notification import (
    MAX_TEXT,
    Notice,
    NoticeName,
    Notify,
    Outcome,
    as_stored,
    notice_id_of,
    read_targets,
)
from roboco.domain.paths import (
    TELLING,
    notice_path,
    notices_path,
    notify_path,
    to_tell_path,
    told_folder,
    told_path,
)
from roboco.engine.engine import Engine
from roboco.errors import TransientError, UsageError
from roboco.ports import Snapshot

_log = logging.getLogger(__name__)

NOTIFIES = "notify"
"""The key in the metadata of a task's first step with the number of its receivers."""
RING = 30.0
"""Seconds after which the sweeper dispatches undelivered notifications again."""


def keep(engine: Engine, task_id: str, targets: list[Notify]) -> None:
    """Store the receivers of the task's notifications; UsageError if others were stored before."""
    if not targets:
        return
    if not engine.files.create(notify_path(task_id), as_stored(targets)):
        raise UsageError(f"task id {task_id!r} was submitted before with another 'notify'; choose another id")


def entry(task_id: str) -> str:
    """Return the schedule's entry for the task's notifications."""
    return f"{TELLING}{task_id}"


def ring(engine: Engine, name: str) -> bool:
    """Dispatch the delivery if this entry of the schedule is for notifications. Return True if it is."""
    if not name.startswith(TELLING):
        return False
    engine.schedule.put(name, RING)
    engine.dispatcher.notify(name.removeprefix(TELLING))
    return True


def tell(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Store the notifications of a waiting or ended task, and dispatch their delivery. A repetition changes nothing."""
    if NOTIFIES not in task.first.metadata:
        return
    data = engine.files.get(notify_path(task_id))
    targets = [] if data is None else read_targets(data)  # a fork has no receivers
    wanted = [index for index, one in enumerate(targets) if task.status in one.on]
    if not wanted:
        return
    known = _names(engine, notices_path(task_id)), _names(engine, told_folder(task_id, task.seq))
    written = [_write(engine, task_id, task, index, known) for index in wanted]
    if any(written):
        engine.files.put(to_tell_path(task_id), b"")
        engine.schedule.put(entry(task_id), RING)
        try:
            engine.dispatcher.notify(task_id)
        except TransientError as error:
            _log.warning("the notifications of task %s are delivered later: %s", task_id, error)


def _write(engine: Engine, task_id: str, task: Snapshot, target: int, known: tuple[set[str], set[str]]) -> bool:
    """Store the notification. Return True if it is not delivered yet. `known` are the pending and the settled names.

    Nothing is stored if the newest notification about this position reports this decision or a later one, or the same
    one in an earlier generation: Redis may have lost that decision, so that the coordinator has made it again.
    """
    pending, settled = known
    name = NoticeName.of(target, task.seq, (task.generation, task.epoch), task.status, task.reason)
    here = [other for other in map(NoticeName.parse, pending | settled) if (other.target, other.seq) == name.place]
    newest = max(here, default=None)
    if newest is not None and (newest >= name or newest.again_as(name)):
        return str(newest) not in settled
    said, now = last_said(task.tail), engine.schedule.time()
    notice = Notice(
        notice_id=notice_id_of(task_id, str(name)),
        name=str(name),
        target=target,
        task_id=task_id,
        team=engine.teams.get(task_id).name,
        status=task.status,
        reason=task.reason,
        steps=task.state.steps,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        text=said[:MAX_TEXT],
        cut=len(said) > MAX_TEXT,
        time=engine.at(now),
        first_at=now,
        next_at=now,
    )
    engine.files.create(notice_path(task_id, str(name)), notice.model_dump_json().encode())
    return True


def _names(engine: Engine, folder: str) -> set[str]:
    """Return the notifications in the folder. Other names are skipped, so that they do not block the task."""
    names = {name.removesuffix(".json") for name in engine.files.names(folder)}
    if strays := sorted(name for name in names if not NoticeName.is_one(name)):
        _log.warning("skipped %d names below %s that are not notifications: %r", len(strays), folder, strays[:5])
    return names.difference(strays)


def settle(engine: Engine, name: str, notice: Notice, outcome: Outcome) -> None:
    told = notice.model_copy(update={"outcome": outcome, "tries": notice.tries + (outcome == "delivered")})
    engine.files.put(result_path(notice.task_id, name), told.model_dump_json().encode())
    engine.files.delete(notice_path(notice.task_id, name))


def confirm(engine: Engine, task_id: str, name: str) -> None:
    """Record that the receiver has confirmed the notification. UsageError if there is none of this name."""
    notice = read_notice(engine, notice_path(task_id, name))
    if notice is not None:
        settle(engine, name, notice, "delivered")
        engine.dead.remove(letter_id_of("notify", task_id, name))
    elif engine.files.get(result_path(task_id, name)) is None:
        raise UsageError(f"task {task_id!r} has no notification {name!r}")


def again(engine: Engine, task_id: str, name: str) -> None:
    """Deliver an abandoned notification again, with its attempts reset; UsageError if it is not abandoned."""
    notice = read_notice(engine, result_path(task_id, name))
    if notice is None or notice.outcome != "given_up":
        raise UsageError(f"task {task_id!r} has no notification {name!r} that was given up")
    now = engine.schedule.time()
    fresh = {
        "outcome": "pending",
        "round": notice.round + 1,
        "tries": 0,
        "first_at": now,
        "next_at": now,
        "error": "",
    }
    engine.files.put(notice_path(task_id, name), notice.model_copy(update=fresh).model_dump_json().encode())
    engine.files.put(to_tell_path(task_id), b"")
    engine.schedule.put(entry(task_id))


def read_notice(engine: Engine, path: str) -> Notice | None:
    data = engine.files.get(path)
    return None if data is None else Notice.model_validate_json(data)


def result_path(task_id: str, name: str) -> str:
    return told_path(task_id, NoticeName.parse(name).seq, name)


def pending_names(engine: Engine, task_id: str) -> list[str]:
    return sorted(_names(engine, notices_path(task_id)), key=NoticeName.parse)


def find(engine: Engine, task_id: str, name: str) -> tuple[Notify, Notice]:
    """Return the receiver and the notification of this name; UsageError if there is none."""
    notice = read_notice(engine, notice_path(task_id, name)) or read_notice(engine, result_path(task_id, name))
    if notice is None:
        raise UsageError(f"task {task_id!r} has no notification {name!r}")
    return read_targets(engine.files.get(notify_path(task_id)) or b"[]")[notice.target], notice
