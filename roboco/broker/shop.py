"""shop: Celery tasks of another application that work for tool calls, on the broker of that application.

    coordinator ─► queue of the shop ─► worker of the shop ─┬─ result ─► link       ─┬─► roboco.task_answer
                                                            └─ error  ─► link_error ─┘

The two signatures are names only: the shop does not need Roboco. Its worker does not know `roboco.task_answer`, so it
sends both by name; an unknown errback gets no exception, only the id of the Celery task. A Celery task that is retried
calls neither, and one that runs twice sends the same message twice.
"""

from collections.abc import Callable
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery
from celery.canvas import Signature

from roboco.broker.app import callback_settings
from roboco.broker.broker import is_amqp
from roboco.broker.broker_error import translating_errors
from roboco.broker.dispatcher import CONFIRM_TIMEOUT, dropping_connection
from roboco.broker.names import TASK_ANSWER_TASK
from roboco.domain.team.tool_spec import DEFAULT_QUEUE, TaskTool
from roboco.errors import Forbidden, UsageError
from roboco.ports.shop import ShopTask
from roboco.redis.server_error import CALLBACK_BROKER_URL_SETTING

CONNECT_RETRIES: Final = 1
"""Retries of a connection to the shop's broker, before a check of the queue."""


def check_task(tool: TaskTool, allowed: tuple[str, ...]) -> None:
    """Raise Forbidden unless the operator allows the Celery task in its queue."""
    wanted = {f"{tool.task}@{tool.queue}", *([tool.task] if tool.queue == DEFAULT_QUEUE else [])}
    if wanted.isdisjoint(allowed):
        raise Forbidden(
            f"Celery task {max(wanted, key=len)!r} is not allowed: add it to tasks of ROBOCO_ALLOWLIST for the "
            f"coordinators; allowed tasks: {', '.join(allowed) or 'none'}"
        )


class CeleryShop:
    """The shop's broker, on which the operator allows some Celery tasks. It declares no queue of the shop.

    `answers` returns the queue of that broker to which the answer of a call of this task is sent.
    """

    def __init__(self, broker_url: str, allowed: tuple[str, ...], answers: Callable[[str], str]) -> None:
        self._allowed = allowed
        self._answers = answers
        self._app = Celery("roboco.shop", set_as_current=False)
        self._app.conf.update(callback_settings(broker_url))
        if is_amqp(broker_url):
            self._app.conf.broker_transport_options = {"confirm_publish": True}

    def check(self, tool: TaskTool) -> None:
        """Raise Forbidden unless the Celery task is allowed. Raise UsageError if RabbitMQ lacks its queue.

        RabbitMQ drops a message to an unknown queue. On Redis a queue that is empty does not exist.
        """
        check_task(tool, self._allowed)
        refusal = translating_errors(tool.task, CALLBACK_BROKER_URL_SETTING)
        with refusal, self._app.producer_or_acquire() as producer, dropping_connection(producer):
            connection: Any = producer.__connection__
            connection.ensure_connection(max_retries=CONNECT_RETRIES, timeout=CONFIRM_TIMEOUT)
            if connection.transport.driver_type != "amqp":
                connection.default_channel.client.ping()
                return
            try:
                with connection.channel() as channel:
                    channel.queue_declare(tool.queue, passive=True)
            except NotFound:
                raise UsageError(
                    f"the broker has no queue {tool.queue!r}: start the workers of your application, which declare it"
                ) from None

    def send(self, task: ShopTask) -> None:
        """Send the Celery task, with the signatures of its answer."""
        named = {"task_id": task.task_id, "call_id": task.call_id, "secret": task.secret}
        options: dict[str, Any] = {
            "task_id": task.message_id,
            **_to_queue(task.tool.queue),
            "serializer": "json",
            "expires": task.seconds,
            "link": [self._answer(task, "answer", named)],
            "link_error": [self._answer(task, "error", named | {"failed": True})],
            "argsrepr": "()",
            "kwargsrepr": "(not shown)",
            "confirm_timeout": CONFIRM_TIMEOUT,
            "retry": task.tool.effect != "irreversible",  # a message may have been sent although its sending failed
        }
        name = task.tool.task
        refusal = translating_errors(name, CALLBACK_BROKER_URL_SETTING)
        with refusal, self._app.producer_or_acquire() as producer, dropping_connection(producer):
            self._app.send_task(name, kwargs=dict(task.args), producer=producer, **options)

    def revoke(self, message_id: str, terminate: bool) -> None:
        """Broadcast to the shop's workers that the Celery task is revoked."""
        with translating_errors("revoke", CALLBACK_BROKER_URL_SETTING):
            self._app.control.revoke(message_id, terminate=terminate)

    def _answer(self, task: ShopTask, kind: str, named: dict[str, Any]) -> Signature[Any]:
        """Return the signature of the answer. An errback takes no argument before these."""
        options = {
            "task_id": f"{task.message_id}/{kind}",
            **_to_queue(self._answers(task.task_id)),
            "serializer": "json",
            "ignore_result": True,
        }
        immutable = "failed" in named
        return Signature(TASK_ANSWER_TASK, (), named, options=options, immutable=immutable, app=self._app)


def _to_queue(queue: str) -> dict[str, Any]:
    """Return the options by which Celery sends to a queue through the exchange of all queues, and declares nothing.

    By its name alone, Celery would declare the queue with arguments of the sender's own, and add it to the queues of
    the sender: a worker of the shop would consume Roboco's queue after its next connection. With the type `direct`,
    Celery would replace the routing key.
    """
    return {"exchange": "", "routing_key": queue, "exchange_type": "topic", "declare": []}
