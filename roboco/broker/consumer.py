"""consumer: the consumer of every worker. Neither a lost broker nor a malformed message ends or blocks a worker."""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from celery.worker.consumer import Consumer
from celery.worker.control import Panel
from kombu.message import Message

from roboco.broker.app import DeadLetterSink
from roboco.broker.broker_error import explain_broker
from roboco.broker.dead_letter import letter_of_body, letter_of_message
from roboco.broker.message_reader import validation_error
from roboco.broker.message_signing import SigningKeys
from roboco.broker.names import QUEUE_OF
from roboco.domain.dead_letter import DeadLetter

UNSIGNED_COMMANDS: Final = frozenset({"enable_events", "disable_events", "heartbeat"})
"""The commands of remote control that are allowed if messages are signed, because its messages are not signed."""
COSTLY_QUERIES: Final = frozenset(
    {"hello", "objgraph", "memdump", "memsample"}
)  # questions that change or cost something

logger = logging.getLogger(__name__)


class _Blueprint(Consumer.Blueprint):  # type: ignore[misc, valid-type]
    """The steps of Celery's consumer, of which the last one reads messages until the connection is lost."""

    default_steps = [step for step in Consumer.Blueprint.default_steps if not step.endswith(":DelayedDelivery")]


class GuardedConsumer(Consumer):
    """Celery's consumer with fixes for a lost broker and checks for messages that it cannot run.

    Such a message is acknowledged and passed to the function in the setting `roboco_dead_letter_sink`; without one it
    is only logged. Gossip and mingle are off, because nothing here needs them. If messages are signed, remote control
    can only query, because its messages are not signed. The 28 queues that Celery declares on RabbitMQ for delayed
    messages are off as well: it cannot deliver to the queues here.
    """

    Blueprint: Any = _Blueprint

    requeue_delay = 2.0  # seconds until a message whose dead letter could not be stored returns to its queue
    retry_delay = 1.0  # seconds until a broker that has failed again, or that refuses a command, is tried again

    event_dispatcher: Any
    connection_errors: tuple[type[Exception], ...]
    channel_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Early acknowledged messages count against the prefetch limit only until they start. With Celery's default a
        # worker would receive as many more as it can run, keep them from other workers, and undo the fair queues.
        self._most = kwargs["app"].conf.get("roboco_prefetch")
        if self._most:
            kwargs["initial_prefetch_count"] = self._most
        # There is no setting for these two, only options of the command line, which this overrides.
        super().__init__(*args, **kwargs, without_gossip=True, without_mingle=True)
        # Kombu counts KeyError as a lost connection; while a message is handled, it is an error of the message.
        errors = self.connection_errors + self.channel_errors
        self._keys: SigningKeys = self.app.conf.get("roboco_signing_keys") or SigningKeys(())
        if self._keys:
            _refuse_commands()
        self._connection_failures = tuple(error for error in errors if not issubclass(KeyError, error))
        self._failed_at = -math.inf

    @property
    def max_prefetch_count(self) -> int:
        """The prefetch limit to which Celery returns after a lost connection."""
        return int(self._most or super().max_prefetch_count)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        super().on_connection_error_before_connected(exc)
        self._wait_if_unusable(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        # Since celery#10242 (5.7.0) a lost connection is first collected and then closed. If a late-acknowledged
        # Celery task is in flight while the worker waits for one more, that close requeues the message through a
        # transport whose client the collection has removed: AttributeError, and the worker exits. The visibility
        # timeout requeues messages as well, so the close is left out.
        if self.connection and self.connection.transport.driver_type == "redis":
            vars(self.connection)["close"] = lambda: None
        super().on_connection_error_after_connected(exc)
        self._wait_if_unusable(exc)

    def _wait_if_unusable(self, exc: Exception) -> None:
        # Celery itself waits only for a broker that refuses connections.
        failed_at, self._failed_at = self._failed_at, time.monotonic()
        if self._failed_at - failed_at < 2 * self.retry_delay or isinstance(exc, self.channel_errors):
            logger.warning("cannot use the broker for now: %s", explain_broker(exc))
            time.sleep(self.retry_delay)

    def shutdown(self) -> None:
        if self.event_dispatcher:
            self.event_dispatcher.flush()  # the pool has ended, and no main loop sends its last events
        super().shutdown()

    def ensure_connected(self, conn: Any) -> Any:
        """Connect to the broker, which is tried again every few seconds. Kombu's own delays grow to half a minute."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_start=1, interval_step=1, interval_max=3)
        return super().ensure_connected(conn)

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Message], None]:
        handle = super().create_task_handler(*args, **kwargs)
        known = runnable_tasks(self.app.tasks, self.app.amqp.queues.consume_from)

        def guarded(message: Message) -> None:
            reason = validation_error(message, known, self._keys)
            if reason is not None:
                self._dead_letter(message, reason)
                return
            try:
                handle(message)
            except self._connection_failures:
                raise
            except Exception as error:
                # Unforeseen: this worker may have lost a slot and has to exit. Do not let the message end the next one.
                if not message.acknowledged:
                    self._dead_letter(message, f"the worker failed to receive it: {error!r}")
                raise

        return guarded

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        self._dead_letter(message, f"body cannot be read: {exc}")

    def on_invalid_task(self, body: object, message: Message, exc: Exception) -> None:
        self._dead_letter(message, str(exc))

    def _dead_letter(self, message: Message, reason: str) -> None:
        letter = _letter_of(message, reason)
        try:
            self._store_dead_letter(letter)
        except Exception:
            # Return it to the end of its queue after a pause: without one this is a hot loop while the store is away.
            facts = letter.model_dump(mode="json", include={"queue", "reason", "letter_id"})
            logger.exception("cannot store dead letter %s; retrying in %s s", json.dumps(facts), self.requeue_delay)
            requeue = (logger, self.connection_errors, True)
            self.timer.call_after(self.requeue_delay, message.reject_log_error, requeue)
        else:
            message.ack_log_error(logger, self.connection_errors)

    def _store_dead_letter(self, letter: DeadLetter) -> None:
        sink: DeadLetterSink | None = self.app.conf.get("roboco_dead_letter_sink")
        if sink:
            sink(letter)
        done = "stored as a dead letter" if sink else "dropped, because 'roboco_dead_letter_sink' is not set"
        logger.warning("a message of queue %r was %s: %s", letter.queue, done, letter.reason)


def _letter_of(message: Message, reason: str) -> DeadLetter:
    try:
        return letter_of_message(message, reason)
    except Exception:
        logger.exception("cannot record all of a message; its dead letter keeps only the body")
        return letter_of_body(message, reason)


def runnable_tasks(registered: Iterable[str], queues: Iterable[str]) -> frozenset[str]:
    """Return the Celery tasks for these queues: a tool must not run in a pool that holds the keys of models.

    Celery's own tasks are excluded, because `celery.map`, for example, runs any other Celery task.
    """
    ours = set(queues) & set(QUEUE_OF.values())
    return frozenset(
        name
        for name in registered
        if not name.startswith("celery.") and (not ours or QUEUE_OF.get(name) in (None, *ours))
    )


def _refuse_commands() -> None:
    """Refuse all commands of remote control that change something. Call this in a worker process only."""
    for name, command in Panel.meta.items():
        if name in COSTLY_QUERIES or (command.type == "control" and name not in UNSIGNED_COMMANDS):
            Panel.data[name] = _refuse


def _refuse(state: object, **arguments: object) -> dict[str, str]:
    return {"error": "refused: this worker accepts signed messages only (ROBOCO_SIGNING_KEYS); commands are not signed"}
