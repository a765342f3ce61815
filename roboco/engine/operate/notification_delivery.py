"""notification_delivery: deliver the notifications of a task that are due, in order, at least once each.

    due ─► attempts.begin ─► receiver ─► result file ─► next one of this receiver
                                │
                                ├─ may succeed later ─► next_attempt_at grows ─► the sweeper dispatches it again
                                └─ cannot succeed, or failed for DELIVERY_PERIOD ─► dead letter

If the answer of a receiver is lost, or the worker dies before it has stored the result, the notification is sent again
with the same id, by which the receiver recognises it. A later notification of the same receiver waits for an earlier
one, so each receiver gets its notifications in order. One that was stored after a later one was delivered is dropped.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from roboco.domain.notification import MAX_TARGETS, Notification, NotificationName, NotifyTarget
from roboco.domain.paths import (
    notification_path,
    notify_marker_path,
    notify_targets_path,
    push_receivers_path,
    tombstone_path,
)
from roboco.engine.engine import Engine, Services, WorkspaceRecords, store_dead_letter
from roboco.engine.notifications import (
    newest_finished,
    pending_names,
    read_notification,
    receivers,
    result_path,
    schedule_key,
    settle,
)
from roboco.errors import CorruptHistory, RetryLater, TransientError, UsageError
from roboco.ports.lease_renewals import AttemptLease

_log = logging.getLogger(__name__)

CONFIRM_TIMEOUT = 60.0
"""The fewest seconds after which an unconfirmed notification is sent again: its message may wait in a queue."""
DELIVERY_PERIOD = 86_400.0
"""Seconds for which delivery of a notification is attempted."""
FINAL_ATTEMPT_BEFORE_END = 60.0
"""If a receiver asks for an attempt later than that, a last one is made this many seconds before the period ends."""
_UNCONFIRMED = (
    "it was sent, and is not confirmed yet: check that the application's workers run, and that "
    "ROBOCO_CALLBACK_BROKER_URL of the coordinators names their broker"
)


@dataclass(frozen=True)
class Delivered:
    """The receiver has accepted the notification."""


@dataclass(frozen=True)
class Undelivered:
    """The receiver has not accepted the notification, or not confirmed it yet. A later attempt may succeed."""

    reason: str
    min_delay: float = 0.0
    """Seconds before which the receiver does not want another attempt."""


@dataclass(frozen=True)
class Undeliverable:
    """No attempt can succeed."""

    reason: str


DeliveryResult = Delivered | Undelivered | Undeliverable


def deliver(engine: Engine, task_id: str) -> None:
    """Deliver the task's notifications that are due.

    If another worker delivers them and some are left, the sweeper dispatches them again after that worker's lease.
    """
    key = schedule_key(task_id)
    unfinished = engine.tasks.leases.start_attempt(key)
    if unfinished is None:
        if pending_names(engine.workspace, task_id):
            engine.tasks.schedule.schedule_no_later_than(key, engine.policy.lease)
        return
    lost = f"{unfinished} workers were lost while they delivered it"
    exhausted = lost if unfinished >= engine.policy.max_attempts else None
    try:
        with engine.process.heartbeat.renewing(AttemptLease(key)):
            _deliver_due(engine, task_id, exhausted)
            _schedule_next(engine, task_id)
    except Exception:
        engine.tasks.leases.finish_attempts(key)
        raise
    engine.tasks.leases.finish_attempts(key)


def _deliver_due(engine: Engine, task_id: str, exhausted: str | None) -> None:
    """Deliver what is due. If `exhausted` is a reason, give up each of these notifications with it."""
    names = pending_names(engine.workspace, task_id)
    if not names:
        return
    targets = receivers(engine.workspace, task_id)
    newest = newest_finished(engine.workspace, task_id)
    for index, of_receiver in groupby(names, _receiver_index):
        path = notify_targets_path(task_id) if index < MAX_TARGETS else push_receivers_path(task_id)
        removed = index not in targets
        if removed and (index < MAX_TARGETS or engine.workspace.files.size(path) is None):
            if engine.workspace.files.size(tombstone_path(task_id)) is None:
                raise CorruptHistory(f"task {task_id!r} lacks {path}: restore it from a backup")
            return  # the task was erased after the names were listed
        for name in of_receiver:
            if removed or _is_late(engine.workspace, task_id, name, newest.get(index)):
                engine.workspace.files.delete(notification_path(task_id, name))
            elif not _deliver_one(engine, task_id, name, targets[index], exhausted):
                break  # the later ones wait for it


def _is_late(workspace: WorkspaceRecords, task_id: str, name: str, newest: NotificationName | None) -> bool:
    """Return True if a later notification of the receiver is finished. One that is delivered on request is not late."""
    if newest is None or newest <= NotificationName.parse(name):
        return False
    notice = read_notification(workspace, notification_path(task_id, name))
    return notice is not None and notice.round == 0


def _deliver_one(engine: Engine, task_id: str, name: str, target: NotifyTarget, exhausted: str | None) -> bool:
    """Attempt the delivery if it is due. Return True if the notification is delivered or given up."""
    notice, now = read_notification(engine.workspace, notification_path(task_id, name)), engine.tasks.schedule.time()
    result = read_notification(engine.workspace, result_path(task_id, name))
    if notice is None or (result is not None and result.round == notice.round):
        engine.workspace.files.delete(notification_path(task_id, name))
        return True
    if notice.next_attempt_at > now:
        return False
    match _attempt(engine.services, target, notice) if exhausted is None else Undeliverable(exhausted):
        case Delivered():
            settle(engine, name, notice, "delivered")
        case Undelivered(reason, min_delay):
            tried = _after_attempt(notice, target, now, reason, min_delay)
            if tried.next_attempt_at - tried.first_attempt_at < DELIVERY_PERIOD:
                engine.workspace.files.put(notification_path(task_id, name), tried.model_dump_json().encode())
                return False
            _give_up(engine, name, tried, target)
        case Undeliverable(reason):
            _give_up(engine, name, _after_attempt(notice, target, now, reason), target)
    return True


def _attempt(services: Services, target: NotifyTarget, notice: Notification) -> DeliveryResult:
    try:
        services.deliver(target, notice)
    except UsageError as error:
        return Undeliverable(str(error))
    except RetryLater as error:
        return Undelivered(str(error), error.seconds)
    except TransientError as error:
        return Undelivered(str(error))
    except Exception as error:
        _log.exception("a notification of task %s could not be delivered", notice.task_id)
        return Undelivered(f"{type(error).__name__}: {error}")
    return Undelivered(_UNCONFIRMED) if target.confirmed else Delivered()


def _after_attempt(
    notice: Notification, target: NotifyTarget, now: float, reason: str, min_delay: float = 0.0
) -> Notification:
    """Return the notification with one more failed attempt and the time of the next one."""
    latest = notice.first_attempt_at + DELIVERY_PERIOD - FINAL_ATTEMPT_BEFORE_END - now
    least = CONFIRM_TIMEOUT if target.confirmed else 0.0
    return notice.after_attempt(now, reason, max(min(min_delay, latest), least))


def _give_up(engine: Engine, name: str, notice: Notification, target: NotifyTarget) -> None:
    """Store a dead letter for the notification, and its result."""
    reason = f"the notification of {target.label} that the task is {notice.status} was not delivered: {notice.error}"
    _log.error("task %s: %s", notice.task_id, reason)
    store_dead_letter(engine, "notify", notice.task_id, name, reason, notice.attempts)
    settle(engine, name, notice, "given_up")


def _schedule_next(engine: Engine, task_id: str) -> None:
    """Schedule the next delivery for when one is due. If none is left, remove the task's schedule entry and marker."""
    due = min(_due_times(engine.workspace, task_id), default=None)
    if due is None:
        engine.workspace.files.delete(notify_marker_path(task_id))
        engine.tasks.schedule.remove(schedule_key(task_id))
        if not pending_names(engine.workspace, task_id):
            return
        engine.workspace.files.put(notify_marker_path(task_id), b"")  # a coordinator has stored another one meanwhile
        due = engine.tasks.schedule.time()
    engine.tasks.schedule.set(schedule_key(task_id), due - engine.tasks.schedule.time())


def _due_times(workspace: WorkspaceRecords, task_id: str) -> Iterator[float]:
    """Yield the due time of the first notification of each receiver."""
    for _, of_receiver in groupby(pending_names(workspace, task_id), _receiver_index):
        notice = read_notification(workspace, notification_path(task_id, next(of_receiver)))
        if notice is not None:
            yield notice.next_attempt_at


def _receiver_index(name: str) -> int:
    return int(name.partition("-")[0])
