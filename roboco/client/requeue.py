"""requeue: have a dead letter delivered once more."""

import uuid
from typing import Any, Final

from celery import Celery

from roboco.adapters.celery.dispatcher import CONFIRMED, sending
from roboco.adapters.celery.signature import MessageKeys
from roboco.domain.letter import DeadLetter
from roboco.domain.paths import open_path
from roboco.engine import notify
from roboco.engine.engine import Engine
from roboco.engine.sweep import LOOKS
from roboco.errors import UsageError

REQUEUED: Final = "roboco_requeued"
"""The header of a message that an operator has sent again: a new id each time."""


def requeue(engine: Engine, app: Celery, letter_id: str) -> DeadLetter:
    """Send the letter again, with its attempts forgotten, and take it off the list.

    UsageError if there is none of this id, if it was not kept whole, or if it would change nothing. A death between
    the two leaves it on the list: what is sent twice has the effect of once.
    """
    letter = engine.dead.letter(letter_id)
    if letter is None:
        raise UsageError(f"no dead letter {letter_id[:80]!r}; roboco dead lists them")
    if letter.cut:
        raise UsageError(
            f"letter {letter_id} was never readable, or was too long, and is not kept whole: send it from its source"
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
            f"{letter.name} of task {letter.task_id!r} cannot be sent again: the task has gone on without it, "
            f"or has ended: roboco show {letter.task_id}"
        )
    if engine.files.get(open_path(letter.task_id)) is None:
        raise UsageError(
            f"task {letter.task_id!r} has ended because of it, and stays as it is: roboco show {letter.task_id}. "
            "Submit it again under another id to have it done from its beginning"
        )
    for key in LOOKS:
        engine.attempts.end(f"{key}:{letter.task_id}")
    engine.agenda.put(letter.task_id)


def _publish(app: Celery, letter: DeadLetter) -> None:
    keys: MessageKeys = app.conf["roboco_keys"]
    # A letter of its own if it comes to nothing again: this one is taken off the list when it may be there already.
    headers = letter.headers | {REQUEUED: uuid.uuid4().hex}
    keys.sign(headers, letter.body.encode())  # whoever sends it again vouches for it
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
