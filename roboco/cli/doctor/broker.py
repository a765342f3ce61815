"""Checks of the broker: it accepts messages, no other application uses it, and workers consume its queues."""

import time
from collections.abc import Iterator
from typing import Any, Final

from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from kombu.utils.url import maybe_sanitize_url
from redis.exceptions import RedisError

from roboco.broker.broker import TRANSPORT_OPTIONS
from roboco.broker.broker_fault import write_fault
from roboco.broker.names import COORDINATOR_QUEUE, QUEUES, queue_lanes
from roboco.broker.queue_stats import QueueStats, read_queue_stats
from roboco.cli.doctor.check import CheckResult, expect
from roboco.cli.doctor.deployments import check_owner, check_unread_lists
from roboco.client.wiring import producer_app
from roboco.errors import TransientError
from roboco.redis.server_error import BROKER_URL_SETTING, explain
from roboco.settings import Settings

INSPECT_TIMEOUTS = (0.5, 1.0, 1.5)
"""Seconds for workers to answer, per attempt. The check repeats while a queue has none: machines may be busy."""
MAX_MESSAGE_AGE: Final = 60.0
"""Seconds for which a message may wait in a queue."""
_ROBOCO_EXCHANGES = frozenset(
    {"celeryev", "celery.pidbox", "reply.celery.pidbox", *(lane for name in QUEUES for lane in queue_lanes(name))}
)
"""The exchanges of Roboco: kombu keeps their bindings, for its workers and for producers that declare its queues."""
_BINDING_PREFIX = "_kombu.binding."
MIN_RABBITMQ: Final = (3, 12)
"""The oldest RabbitMQ whose queues can set a time limit for acknowledgements, as those of Roboco do."""
MAX_PAGES: Final = 50
"""Pages of keys that are searched: a database of Roboco alone has few."""


def check_broker(settings: Settings) -> Iterator[CheckResult]:
    """Check that the broker accepts messages, and that a worker consumes each queue."""
    app = producer_app(settings)
    where = maybe_sanitize_url(settings.broker)
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            rabbit = _check_rabbitmq(connection)
        if fault := write_fault(app):
            found, _, todo = fault.partition("; ")
            yield CheckResult("broker", "fail", f"{where} takes no messages: {found}", todo)
            yield from rabbit
            return
        answers = _consumed_queues(app)
        waiting = read_queue_stats(app, QUEUES)
        shared = [*_check_shared_database(app), check_owner(app, settings), *check_unread_lists(app, settings)]
    except (AMQPError, KombuError, RedisError, OSError, TransientError) as error:
        found, todo = str(error), "check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL"
        for cause in (error, error.__cause__):  # kombu wraps the errors of Redis
            if isinstance(cause, RedisError):
                found, todo = explain(cause, BROKER_URL_SETTING)
        yield CheckResult("broker", "fail", f"{where}: {found}", todo)
        return
    finally:
        app.close()
    yield CheckResult("broker", "ok", where)
    yield from rabbit
    yield from shared
    for queue in waiting:
        yield from _check_queue(
            queue, sorted(node for node, queues in answers.items() if queue.name in queues), bool(answers)
        )


def _check_rabbitmq(connection: Any) -> list[CheckResult]:
    """Check that a RabbitMQ allows long tool calls. Return no check for another broker."""
    if connection.transport.driver_type != "amqp":
        return []
    version = str(connection.connection.server_properties.get("version", "0"))
    new = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= MIN_RABBITMQ
    todo = "use 3.12 or newer, or raise its consumer_timeout above your longest tool call (30 minutes are usual)"
    return [expect("broker version", new, f"RabbitMQ {version}", todo)]


def _check_queue(queue: QueueStats, nodes: list[str], any_worker: bool) -> Iterator[CheckResult]:
    todo = f"start one: celery -A roboco.workers.{queue.name.rpartition('.')[2]} worker"
    if queue.name == COORDINATOR_QUEUE and not any_worker:
        todo += " (or one for everything: celery -A roboco.workers.app worker)"
    found = ", ".join(nodes) or f"no worker answered in {sum(INSPECT_TIMEOUTS):g} s"
    yield expect(f"queue {queue.name}", bool(nodes), found, todo, "fail")
    if queue.waiting:
        age = 0.0 if queue.oldest is None else time.time() - queue.oldest
        found = f"{queue.waiting} messages wait" + (f", the oldest for {age:.0f} s" if age else "")
        yield expect(
            f"backlog {queue.name.rpartition('.')[2]}", age < MAX_MESSAGE_AGE, found, "start more workers of this pool"
        )


def _check_shared_database(app: Celery) -> Iterator[CheckResult]:
    """Check that no other Celery application uses the same Redis database, with another visibility timeout."""
    connections: Any = app.pool
    with connections.acquire(block=True) as connection:
        if connection.transport.driver_type != "redis":
            return
        client = connection.default_channel.client
        others, cursor = set[str](), 0
        for _ in range(MAX_PAGES):
            cursor, keys = client.scan(cursor, match=f"{_BINDING_PREFIX}*", count=1000)
            others |= {key.decode().removeprefix(_BINDING_PREFIX) for key in keys} - _ROBOCO_EXCHANGES
            if not cursor:
                break
    visible = TRANSPORT_OPTIONS["visibility_timeout"]
    found = (
        f"also used for {', '.join(sorted(others)[:5])}" if others else f"ours alone, visibility timeout {visible} s"
    )
    todo = "name a separate database in ROBOCO_BROKER_URL: the shortest visibility timeout in a database counts for all"
    yield expect("broker database", not others, found, todo)


def _consumed_queues(app: Celery) -> dict[str, set[str]]:
    """Return the queues that each worker consumes."""
    answers: dict[str, Any] = {}
    for seconds in INSPECT_TIMEOUTS:
        # A new connection each time: the next command on the same connection would read a late reply.
        with app.connection_for_write() as connection:
            answers |= app.control.inspect(timeout=seconds, connection=connection).active_queues() or {}
        consumed = {node: {queue["name"] for queue in queues} for node, queues in answers.items()}
        if set().union(*consumed.values()) >= set(QUEUES):
            break
    return consumed
