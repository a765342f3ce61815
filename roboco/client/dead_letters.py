"""requeue: send a dead letter again, or drop it."""

import uuid
from typing import Any, Final

from celery import Celery

from roboco.adapters.celery.dispatcher import CONFIRMED, sending
from roboco.adapters.celery.message_signing import MessageKeys
from roboco.adapters.celery.names import TEAM
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.paths import open_path
from roboco.engine import notifications as notify
from roboco.engine.coordinator.sweep import LOOKS
from roboco.engine.engine import Engine
from roboco.errors import UsageError

REQUEUED: Final = "roboco_requeued"
"""The header of a requeued message, with a new id each time."""


def requeue(engine: Engine, app: Celery, letter_id: str) -> DeadLetter:
    """Send the letter again, with its attempts reset, and remove it from the list.

    UsageError if there is no letter with this id, if it was not kept whole, or if sending it would change nothing. If
    the process dies in between, the letter stays on the list: a message that is sent twice has its effect once.
    """
    letter = engine.dead.letter(letter_id)
    if letter is None:
        raise UsageError(f"no dead letter {letter_id[:80]!r}; roboco dead lists them")
    if letter.name == TEAM:
        raise UsageError(
            f"letter {letter_id} is of a shop's own Celery application: mend the call and send it again from there; "
            f"roboco dismiss {letter_id} takes it off the list"
        )
    if letter.cut:
        raise UsageError(
            f"letter {letter_id} is not kept whole, because it was unreadable or too long: send it from its source; "
            f"roboco dismiss {letter_id} takes it off the list"
        )
    if letter.work is None:
        engine.attempts.end(f"message:{letter.headers.get('id')}")
        _publish(app, letter)
    else:
        _look_again(engine, letter)
    engine.dead.remove(letter_id)
    return letter


def _look_again(engine: Engine, letter: DeadLetter) -> None:
    if letter.work == "notify":
        notify.again(engine, letter.task_id, letter.detail)
        return
    if letter.work != "advance":
        raise UsageError(
            f"{letter.name} of task {letter.task_id!r} cannot be sent again: the task has continued without it "
            f"or has ended; see roboco show {letter.task_id}. roboco dismiss {letter.letter_id} takes it off the list"
        )
    if engine.files.get(open_path(letter.task_id)) is None:
        raise UsageError(
            f"task {letter.task_id!r} has ended because of this letter; see roboco show {letter.task_id}. "
            "Submit it again under another id to start it from the beginning; "
            f"roboco dismiss {letter.letter_id} takes the letter off the list"
        )
    for key in LOOKS:
        engine.attempts.end(f"{key}:{letter.task_id}")
    engine.schedule.put(letter.task_id)


def _publish(app: Celery, letter: DeadLetter) -> None:
    keys: MessageKeys = app.conf["roboco_keys"]
    # If it fails again, it must become another letter: that one may be stored before this one is removed.
    headers = letter.headers | {REQUEUED: uuid.uuid4().hex}
    keys.sign(headers, letter.body.encode())  # by requeueing it, the operator vouches for the message
    producers: Any = app.amqp.producer_pool
    with sending(letter.name), producers.acquire(block=True) as producer:
        producer.publish(
            letter.body.encode(),
            exchange="",
            routing_key=letter.queue,
            headers=headers,
            content_type=letter.content_type,
            content_encoding=letter.content_encoding,
            delivery_mode=2,
            confirm_timeout=CONFIRMED,
        )


def dismiss(engine: Engine, letter_id: str) -> DeadLetter | None:
    """Remove the letter from the list without sending it. Return it, or None if it is not on the list."""
    letter = engine.dead.letter(letter_id)
    if letter is not None:
        engine.dead.remove(letter_id)
    return letter
