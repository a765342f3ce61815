"""notifications: receivers are notified when a task has ended or waits.

    status ─► notification ─► marker ─► schedule ─► wake-up message ─► delivery ─► result ─► no marker
              (create)        (put)                                    (outside)   (put)

Each pass of the coordinator over a waiting or ended task stores its notifications if they are missing. If the worker
dies after the status has changed, the sweeper repeats the pass, and a task is closed only after its notifications are
stored. From then on the marker makes the sweeper dispatch the delivery (notification_delivery.py) until none is left.

Each receiver gets its notifications in the order of the decisions: by position, generation and epoch. A pass may store
its notification late, after the task has moved on and a later one was delivered. The record of the newest finished
notification of each target shows that, and the late one is dropped, as if its wait had ended before the pass.

A client of A2A adds push receivers to an open task, in their own file. Its gateway stores the receiver first, and reads
the task after that: if the task rests by then, no coordinator may have seen the receiver, and the gateway stores the
notification itself.
"""

import json
import logging
from collections.abc import Callable, Collection

from roboco.domain.canonical_json import canonical_json
from roboco.domain.dead_letter import letter_id_of
from roboco.domain.history.step import OUTPUT, TaskStep
from roboco.domain.notification import (
    MAX_TEXT_CHARS,
    TARGET_COUNT_KEY,
    DeliveryStatus,
    Notification,
    NotificationName,
    NotifyTarget,
    notification_id_of,
    targets_from_json,
    targets_to_json,
)
from roboco.domain.paths import (
    NOTIFY_PREFIX,
    finished_notification_path,
    newest_notifications_path,
    notification_path,
    notifications_path,
    notify_marker_path,
    notify_targets_path,
    push_receivers_path,
)
from roboco.domain.push_receivers import PushReceivers
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.retry import RETRY_DELAYS, contention_error
from roboco.errors import NotFound, StateConflict, TransientError
from roboco.ports.snapshot import Snapshot

_log = logging.getLogger(__name__)

REDELIVERY_DELAY = 30.0
"""Seconds after which the sweeper dispatches undelivered notifications again."""


def store_targets(workspace: WorkspaceRecords, task_id: str, targets: list[NotifyTarget]) -> None:
    """Store the receivers of the task's notifications; UsageError if others were stored before."""
    if not targets:
        return
    if not workspace.files.create(notify_targets_path(task_id), targets_to_json(targets)):
        raise StateConflict(f"task id {task_id!r} was submitted before with another 'notify'; choose another id")


def submitted_targets(workspace: WorkspaceRecords, task_id: str) -> list[NotifyTarget]:
    """Return the targets with which the task was submitted."""
    return targets_from_json(workspace.files.get(notify_targets_path(task_id)) or b"[]")


def push_receivers(workspace: WorkspaceRecords, task_id: str) -> PushReceivers:
    """Return the receivers of the task's push notifications."""
    return PushReceivers.from_json(workspace.files.get(push_receivers_path(task_id)))


def receivers(workspace: WorkspaceRecords, task_id: str) -> dict[int, NotifyTarget]:
    """Return all receivers of the task's notifications by their places."""
    return dict(enumerate(submitted_targets(workspace, task_id))) | push_receivers(workspace, task_id).receivers


def takes_push_receivers(first: TaskStep) -> bool:
    """Return True if a task with this first step may have push receivers: coordinators read one file of targets."""
    return first.metadata.get(TARGET_COUNT_KEY) == 0


def set_push_receiver(engine: Engine, task_id: str, receiver: NotifyTarget) -> None:
    """Store the receiver of an A2A configuration in the place of the earlier one with its id, or add it.

    If the task waits or has ended, a new receiver is notified of that. UsageError if there are too many.
    """
    _change_push_receivers(engine, task_id, lambda stored: stored.with_receiver(receiver))
    if (task := engine.tasks.task_store.load(task_id, 1)) is not None:
        enqueue(engine, task_id, task)  # it may have come to rest before the receiver was stored


def remove_push_receiver(engine: Engine, task_id: str, push_id: str) -> None:
    """Remove the receiver of an A2A configuration, with its secrets. A repetition changes nothing."""
    _change_push_receivers(engine, task_id, lambda stored: stored.without(push_id))


def _change_push_receivers(engine: Engine, task_id: str, change: Callable[[PushReceivers], PushReceivers]) -> None:
    path = push_receivers_path(task_id)
    for delay in RETRY_DELAYS:
        stored = engine.workspace.files.get_versioned(path)
        before = PushReceivers.from_json(None if stored is None else stored.data)
        after = change(before)
        version = None if stored is None else stored.version
        if after == before or engine.workspace.files.replace(path, after.to_json(), version):
            return
        engine.clock.sleep(delay)
    raise contention_error(path)


def schedule_key(task_id: str) -> str:
    """Return the schedule's entry for the task's notifications."""
    return f"{NOTIFY_PREFIX}{task_id}"


def redeliver(engine: Engine, name: str) -> bool:
    """Dispatch the delivery if this entry of the schedule is for notifications. Return True if it is."""
    if not name.startswith(NOTIFY_PREFIX):
        return False
    engine.tasks.schedule.set(name, REDELIVERY_DELAY)
    engine.services.dispatcher.notify(name.removeprefix(NOTIFY_PREFIX))
    return True


def enqueue(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Store the notifications of a waiting or ended task, and dispatch their delivery. A repetition changes nothing."""
    if TARGET_COUNT_KEY not in task.steps.first.metadata:
        return
    if takes_push_receivers(task.steps.first):
        targets = push_receivers(engine.workspace, task_id).receivers
    else:
        targets = dict(enumerate(submitted_targets(engine.workspace, task_id)))  # a fork has none of its source
    wanted = [index for index, one in targets.items() if task.position.status in one.on]
    if not wanted:
        return
    pending = [NotificationName.parse(name) for name in pending_names(engine.workspace, task_id)]
    finished = newest_finished(engine.workspace, task_id)
    written = [_store(engine, task_id, task, index, pending, finished.get(index)) for index in wanted]
    if any(written):
        engine.workspace.files.put(notify_marker_path(task_id), b"")
        engine.tasks.schedule.set(schedule_key(task_id), REDELIVERY_DELAY)
        try:
            engine.services.dispatcher.notify(task_id)
        except TransientError as error:
            _log.warning("the notifications of task %s are delivered later: %s", task_id, error)


def _store(
    engine: Engine,
    task_id: str,
    task: Snapshot,
    target: int,
    pending: Collection[NotificationName],
    finished: NotificationName | None,
) -> bool:
    """Store the notification. Return True if it is not delivered yet.

    Nothing is stored if the newest notification of the target reports this decision or a later one, or the same one in
    an earlier generation: Redis may have lost that decision, so that the coordinator has made it again.
    """
    name = NotificationName.of_decision(
        target,
        task.position.seq,
        (task.logs.generation, task.position.epoch),
        task.position.status,
        task.position.reason,
    )
    known = [other for other in (*pending, finished) if other is not None and other.target == target]
    newest = max(known, default=None)
    if newest is not None and (newest >= name or newest.repeats(name)):
        return newest in pending
    answer, now = engine.workspace.tails.last_answer(task_id, task), engine.tasks.schedule.time()
    said = "" if answer is None else answer.text
    notice = Notification(
        notification_id=notification_id_of(task_id, str(name)),
        name=str(name),
        target=target,
        task_id=task_id,
        team=engine.workspace.frozen_teams.get(task_id).name,
        status=task.position.status,
        reason=task.position.reason,
        retry_of=engine.workspace.frozen_teams.retry_of(task_id, task.steps.first),
        steps=task.state.steps,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        text=said[:MAX_TEXT_CHARS],
        truncated=len(said) > MAX_TEXT_CHARS,
        output=None if answer is None or len(said) > MAX_TEXT_CHARS else answer.metadata.get(OUTPUT),
        time=engine.time_at(now),
        first_attempt_at=now,
        next_attempt_at=now,
    )
    engine.workspace.files.create(notification_path(task_id, str(name)), notice.model_dump_json().encode())
    return True


def newest_finished(workspace: WorkspaceRecords, task_id: str) -> dict[int, NotificationName]:
    """Return the newest notification of each target that was delivered or given up. Cost: one read."""
    return _parse_newest(workspace.files.get(newest_notifications_path(task_id)))


def _parse_newest(data: bytes | None) -> dict[int, NotificationName]:
    names = [] if data is None else [NotificationName.parse(name) for name in json.loads(data)]
    return {name.target: name for name in names}


def _record_finished(engine: Engine, task_id: str, name: NotificationName) -> None:
    """Record the notification as finished, unless a later one of its target is."""
    path = newest_notifications_path(task_id)
    for delay in RETRY_DELAYS:
        stored = engine.workspace.files.get_versioned(path)
        newest = _parse_newest(None if stored is None else stored.data)
        if (other := newest.get(name.target)) is not None and other >= name:
            return
        names = sorted((newest | {name.target: name}).values())
        data = canonical_json([str(one) for one in names]).encode()
        if engine.workspace.files.replace(path, data, None if stored is None else stored.version):
            return
        engine.clock.sleep(delay)
    raise contention_error(path)


def settle(engine: Engine, name: str, notice: Notification, outcome: DeliveryStatus) -> None:
    """Store the result of a notification, which is delivered or given up, and remove it from the pending ones.

    The order is recorded first: once the notification is not pending any more, an earlier one counts as late.
    """
    _record_finished(engine, notice.task_id, NotificationName.parse(name))
    result = notice.model_copy(update={"delivery": outcome, "attempts": notice.attempts + (outcome == "delivered")})
    engine.workspace.files.put(result_path(notice.task_id, name), result.model_dump_json().encode())
    engine.workspace.files.delete(notification_path(notice.task_id, name))


def confirm(engine: Engine, task_id: str, name: str) -> None:
    """Record that the receiver has confirmed the notification. UsageError if there is none of this name."""
    notice = read_notification(engine.workspace, notification_path(task_id, name))
    if notice is not None:
        settle(engine, name, notice, "delivered")
        engine.tasks.dead_letters.remove(letter_id_of("notify", task_id, name))
    elif engine.workspace.files.get(result_path(task_id, name)) is None:
        raise NotFound(f"task {task_id!r} has no notification {name!r}")


def retry_abandoned(engine: Engine, task_id: str, name: str) -> None:
    """Deliver an abandoned notification again, with its attempts reset; UsageError if it is not abandoned."""
    notice = read_notification(engine.workspace, result_path(task_id, name))
    if notice is None or notice.delivery != "given_up":
        raise StateConflict(f"task {task_id!r} has no notification {name!r} that was given up")
    now = engine.tasks.schedule.time()
    fresh = {
        "delivery": "pending",
        "round": notice.round + 1,
        "attempts": 0,
        "first_attempt_at": now,
        "next_attempt_at": now,
        "error": "",
    }
    again = notice.model_copy(update=fresh)
    engine.workspace.files.put(notification_path(task_id, name), again.model_dump_json().encode())
    engine.workspace.files.put(notify_marker_path(task_id), b"")
    engine.tasks.schedule.set(schedule_key(task_id))


def read_notification(workspace: WorkspaceRecords, path: str) -> Notification | None:
    data = workspace.files.get(path)
    return None if data is None else Notification.model_validate_json(data)


def result_path(task_id: str, name: str) -> str:
    return finished_notification_path(task_id, NotificationName.parse(name).seq, name)


def pending_names(workspace: WorkspaceRecords, task_id: str) -> list[str]:
    """Return the names of the notifications that are not delivered, in their order. Other names block nothing."""
    folder = notifications_path(task_id)
    names = {name.removesuffix(".json") for name in workspace.files.names(folder)}
    if strays := sorted(name for name in names if not NotificationName.is_valid(name)):
        _log.warning("skipped %d names below %s that are not notifications: %r", len(strays), folder, strays[:5])
    return sorted(names.difference(strays), key=NotificationName.parse)


def find_notification(workspace: WorkspaceRecords, task_id: str, name: str) -> tuple[NotifyTarget, Notification]:
    """Return the receiver and the notification of this name; UsageError if there is none."""
    pending = read_notification(workspace, notification_path(task_id, name))
    notice = pending or read_notification(workspace, result_path(task_id, name))
    if notice is None:
        raise NotFound(f"task {task_id!r} has no notification {name!r}")
    return receivers(workspace, task_id)[notice.target], notice
