"""Dead letters: find one, send it again, or dismiss it."""

import uuid
from typing import Any, Final

from celery import Celery

from roboco.broker.broker_error import translating_errors
from roboco.broker.dispatcher import CONFIRM_TIMEOUT
from roboco.broker.message_signing import SigningKeys
from roboco.broker.names import TEAM_TASK
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.paths import open_marker_path
from roboco.engine import notifications as notify
from roboco.engine.engine import Engine, TaskStores, reset_attempts
from roboco.errors import AlreadyEnded, NotFound, StateConflict

REQUEUED: Final = "roboco_requeued"
"""The header of a requeued message, with a new id each time."""


def find(tasks: TaskStores, letter_id: str) -> DeadLetter:
    """Return the dead letter. Raises UsageError if there is none with this id."""
    letter = tasks.dead_letters.get(letter_id)
    if letter is None:
        raise NotFound(f"no dead letter {letter_id[:80]!r}; roboco dead-letters lists them")
    return letter


def requeue(engine: Engine, app: Celery, letter_id: str) -> DeadLetter:
    """Send the letter again, with its attempts reset, remove it from the list, and return it.

    If the process dies in between, the letter stays on the list: a message that is sent twice has its effect once.
    Raises UsageError if there is no letter with this id, if it was truncated, or if sending it would have no effect.
    """
    letter = find(engine.tasks, letter_id)
    if letter.name == TEAM_TASK:
        raise StateConflict(
            f"letter {letter_id} is of a shop's own Celery application: correct the call and send it again from there; "
            f"roboco dead-letters dismiss {letter_id} takes it off the list"
        )
    if letter.truncated:
        raise StateConflict(
            f"letter {letter_id} is truncated, because it was unreadable or too long: send it from its source; "
            f"roboco dead-letters dismiss {letter_id} takes it off the list"
        )
    if letter.work is None:
        engine.tasks.leases.finish_attempts(f"message:{letter.headers.get('id')}")
        _publish(app, letter)
    else:
        _schedule_work(engine, letter)
    engine.tasks.dead_letters.remove(letter_id)
    return letter


def dismiss(tasks: TaskStores, letter_id: str) -> DeadLetter | None:
    """Delete the letter for good, without sending it. Return it, or None if it is not on the list.

    Two callers at the same moment may both get it. A letter that is requeued at that moment is sent.
    """
    letter = tasks.dead_letters.get(letter_id)
    if letter is not None:
        tasks.dead_letters.remove(letter_id)
    return letter


def may_requeue(letter: DeadLetter) -> bool:
    """Return True if the letter itself allows to requeue it. Its task may have ended nevertheless."""
    return not letter.truncated and letter.name != TEAM_TASK and letter.work in (None, "advance", "notify")


def _schedule_work(engine: Engine, letter: DeadLetter) -> None:
    """Schedule the lost work again. Raises UsageError if its task has continued without it, or has ended."""
    if letter.work == "notify":
        notify.retry_abandoned(engine, letter.task_id, letter.detail)
        return
    if letter.work != "advance":
        raise StateConflict(
            f"{letter.name} of task {letter.task_id!r} cannot be sent again: the task has continued without it or has "
            f"ended; see roboco show {letter.task_id}. roboco dead-letters dismiss {letter.letter_id} takes it off the "
            "list"
        )
    if engine.workspace.files.get(open_marker_path(letter.task_id)) is None:
        raise AlreadyEnded(
            f"task {letter.task_id!r} has ended because of this letter; see roboco show {letter.task_id}. "
            "Submit it again under another id to start it from the beginning; "
            f"roboco dead-letters dismiss {letter.letter_id} takes the letter off the list"
        )
    reset_attempts(engine.tasks, letter.task_id)
    engine.tasks.schedule.set(letter.task_id)


def _publish(app: Celery, letter: DeadLetter) -> None:
    keys: SigningKeys = app.conf["roboco_signing_keys"]
    # If it fails again, it must become another letter: that one may be stored before this one is removed.
    headers = letter.headers | {REQUEUED: uuid.uuid4().hex}
    keys.sign(headers, letter.body.encode())  # by requeueing it, the operator vouches for the message
    producers: Any = app.amqp.producer_pool
    with translating_errors(letter.name), producers.acquire(block=True) as producer:
        producer.publish(
            letter.body.encode(),
            exchange="",
            routing_key=letter.queue,
            headers=headers,
            content_type=letter.content_type,
            content_encoding=letter.content_encoding,
            delivery_mode=2,
            confirm_timeout=CONFIRM_TIMEOUT,
        )
