"""Checks of the broker: it accepts messages, no other application uses it, and workers consume its queues."""

import time
from collections.abc import Iterator
from typing import Any, Final

from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from kombu.utils.url import maybe_sanitize_url
from redis.exceptions import RedisError

from roboco.adapters.celery.broker import TRANSPORT_OPTIONS
from roboco.adapters.celery.names import COORDINATOR_QUEUE, QUEUES, lanes
from roboco.adapters.celery.queue_stats import QueueNow, queues_now
from roboco.adapters.redis.refusal import BROKER_SETTING, refusal
from roboco.cli.doctor.check import Check, wanted
from roboco.client.wiring import producer
from roboco.errors import TransientError
from roboco.settings import Settings

_INSPECT = (0.5, 1.0, 1.5)
"""Seconds for workers to answer, per attempt. The check repeats while a queue has none: machines may be busy."""
MAX_MESSAGE_AGE: Final = 60.0
"""Seconds for which a message may wait in a queue."""
_OURS = frozenset(
    {"celeryev", "celery.pidbox", "reply.celery.pidbox", *(lane for name in QUEUES for lane in lanes(name))}
)
"""The exchanges of Roboco: kombu keeps their bindings, for its workers and for producers that declare its queues."""
_BINDING = "_kombu.binding."
MIN_RABBITMQ: Final = (3, 12)
"""The oldest RabbitMQ whose queues can set a time limit for acknowledgements, as those of Roboco do."""
MAX_PAGES: Final = 50
"""Pages of keys that are searched: a database of Roboco alone has few."""


def check_broker(settings: Settings) -> Iterator[Check]:
    """Check that the broker accepts messages, and that a worker consumes each queue."""
    app = producer(settings)
    where = maybe_sanitize_url(settings.broker)
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            rabbit = _rabbit(connection)
        answers = _queues(app)
        waiting = queues_now(app, QUEUES)
        shared = list(_shared(app))
    except (AMQPError, KombuError, RedisError, OSError, TransientError) as error:
        found, todo = refusal(error, BROKER_SETTING) or (str(error), "check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL")
        yield Check("broker", "fail", f"{where}: {found}", todo)
        return
    finally:
        app.close()
    yield Check("broker", "ok", where)
    yield from rabbit
    yield from shared
    for queue in waiting:
        yield from _queue(
            queue, sorted(node for node, queues in answers.items() if queue.name in queues), bool(answers)
        )


def _rabbit(connection: Any) -> list[Check]:
    """Check that a RabbitMQ allows long tool calls. Return no check for another broker."""
    if connection.transport.driver_type != "amqp":
        return []
    version = str(connection.connection.server_properties.get("version", "0"))
    new = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= MIN_RABBITMQ
    todo = "use 3.12 or newer, or raise its consumer_timeout above your longest tool call (30 minutes are usual)"
    return [wanted("broker version", new, f"RabbitMQ {version}", todo)]


def _queue(queue: QueueNow, nodes: list[str], any_worker: bool) -> Iterator[Check]:
    todo = f"start one: celery -A roboco.workers.{queue.name.rpartition('.')[2]} worker"
    if queue.name == COORDINATOR_QUEUE and not any_worker:
        todo += " (or one for everything: celery -A roboco.workers.app worker)"
    found = ", ".join(nodes) or f"no worker answered in {sum(_INSPECT):g} s"
    yield wanted(f"queue {queue.name}", bool(nodes), found, todo, "fail")
    if queue.waiting:
        age = 0.0 if queue.oldest is None else time.time() - queue.oldest
        found = f"{queue.waiting} messages wait" + (f", the oldest for {age:.0f} s" if age else "")
        yield wanted(
            f"backlog {queue.name.rpartition('.')[2]}", age < MAX_MESSAGE_AGE, found, "start more workers of this pool"
        )


def _shared(app: Celery) -> Iterator[Check]:
    """Check that no other Celery application uses the same Redis database, with another visibility timeout."""
    connections: Any = app.pool
    with connections.acquire(block=True) as connection:
        if connection.transport.driver_type != "redis":
            return
        client = connection.default_channel.client
        others, cursor = set[str](), 0
        for _ in range(MAX_PAGES):
            cursor, keys = client.scan(cursor, match=f"{_BINDING}*", count=1000)
            others |= {key.decode().removeprefix(_BINDING) for key in keys} - _OURS
            if not cursor:
                break
    visible = TRANSPORT_OPTIONS["visibility_timeout"]
    found = (
        f"also used for {', '.join(sorted(others)[:5])}" if others else f"ours alone, visibility timeout {visible} s"
    )
    todo = "name a separate database in ROBOCO_BROKER_URL: the shortest visibility timeout in a database counts for all"
    yield wanted("broker database", not others, found, todo)


def _queues(app: Celery) -> dict[str, set[str]]:
    """Return the queues that each worker consumes."""
    answers: dict[str, Any] = {}
    for seconds in _INSPECT:
        # A new connection each time: the next command on the same connection would read a late reply.
        with app.connection_for_write() as connection:
            answers |= app.control.inspect(timeout=seconds, connection=connection).active_queues() or {}
        consumed = {node: {queue["name"] for queue in queues} for node, queues in answers.items()}
        if set().union(*consumed.values()) >= set(QUEUES):
            break
    return consumed
