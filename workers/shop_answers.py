"""shop_answers: the answers of a shop's Celery tasks on a broker that is not Roboco's.

    shop's worker ─► queue PREFIX.answers of its broker ─► coordinator (this thread) ─► queue of Roboco's broker ─► ack

The shop's workers reach only their own broker. A thread of each coordinator worker takes the answers from it, and sends
their bodies on, with new headers, after the checks that every message gets. If the coordinator dies, or Roboco's
broker does not answer, the message returns to the shop's queue: an answer may arrive twice, which changes nothing. One
that cannot be sent on at all is dropped, since it would return for ever.
"""

import logging
import traceback
from typing import Any, Final

from amqp.exceptions import PreconditionFailed
from celery import Celery
from kombu import Consumer, Queue
from kombu.message import Message

from roboco.broker import display
from roboco.broker.background import run_periodically
from roboco.broker.broker import broker_settings, queue_arguments
from roboco.broker.broker_error import BROKER_ERRORS, explain_broker
from roboco.broker.dispatcher import CONFIRM_TIMEOUT, dropping_connection
from roboco.broker.message_reader import validation_error
from roboco.broker.message_signing import SigningKeys
from roboco.broker.names import COORDINATOR_QUEUE, TASK_ANSWER_TASK, tenant_lanes
from roboco.client.wiring import answers_queue, shop_broker
from roboco.domain.ids import is_task_id, tenant_of
from roboco.settings import Settings

_log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds after which a lost broker is tried again."""
DRAINED_EVENTS: Final = 10
"""Times that a call waits for a message, for a second each, before the thread may end."""
PREFETCH: Final = 4
"""Answers that this thread holds at most."""


def install_shop_answers(app: Celery, settings: Settings) -> None:
    """Take answers from the shop's broker while the worker runs, if it is another one and teams may use its tasks."""
    queue = answers_queue(settings)
    if queue is not None and settings.allowlist.tasks:
        run_periodically(app, "roboco-shop-answers", INTERVAL, ShopAnswers(app, shop_broker(settings), queue).run)


class ShopAnswers:
    """The answers in a queue of the shop's broker."""

    def __init__(self, app: Celery, url: str, queue: str) -> None:
        self._app = app
        self._queue = Queue(queue, routing_key=queue, queue_arguments=queue_arguments(url))
        self._shop = Celery("roboco.answers", set_as_current=False)
        self._shop.conf.update(broker_settings(url))
        self._connection: Any = None

    def run(self) -> None:
        """Send on the answers that arrive within some seconds. After an error, connect again with the next call."""
        try:
            self._drain()
        except BROKER_ERRORS as error:
            setting = "ROBOCO_CALLBACK_BROKER_URL"
            _log.warning("answers of Celery tasks are not taken now: %s", explain_broker(error, setting))
            self._close()
        except Exception:
            _log.exception("answers of Celery tasks are not taken now")
            self._close()

    def _drain(self) -> None:
        if self._connection is None:
            self._connection = self._shop.connection_for_read()
        connection = self._connection
        with Consumer(connection, [self._queue], on_message=self._forward, prefetch_count=PREFETCH, auto_declare=True):
            for _ in range(DRAINED_EVENTS):
                connection.heartbeat_check()
                try:
                    connection.drain_events(timeout=1)
                except TimeoutError:
                    continue

    def _forward(self, message: Message) -> None:
        """Send the answer on, and acknowledge it. Drop a message that is no answer, or that cannot be sent."""
        try:
            wrong = validation_error(message, {TASK_ANSWER_TASK}, SigningKeys(()))
            if wrong is None:
                self._send(message)
        except PreconditionFailed as error:  # of a message to a queue, RabbitMQ says only that it is too large
            wrong = f"RabbitMQ refuses it: {error}"
        except BROKER_ERRORS:
            raise
        except Exception as error:
            wrong = f"{type(error).__name__}\n{display.redact_traceback(traceback.format_exc())}"
        if wrong is not None:
            _log.warning("a message in queue %s is dropped: %s", self._queue.name, wrong)
        message.ack()

    def _send(self, message: Message) -> None:
        named = message.payload[1].get("task_id")
        tenant = tenant_of(named) if isinstance(named, str) and is_task_id(named) else ""
        with self._app.producer_or_acquire() as producer, dropping_connection(producer):
            producer.publish(
                message.body,
                exchange="",
                routing_key=tenant_lanes(COORDINATOR_QUEUE, tenant)[0],
                content_type="application/json",
                content_encoding="utf-8",
                headers={"lang": "py", "task": TASK_ANSWER_TASK, "id": message.headers["id"]},
                delivery_mode=2,
                retry=False,
                confirm_timeout=CONFIRM_TIMEOUT,
            )

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.collect()
