"""Checks of the broker: it accepts messages, no other application uses it, and each pool has workers."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from kombu.utils.url import maybe_sanitize_url
from redis.exceptions import RedisError

from roboco.broker.broker import TRANSPORT_OPTIONS
from roboco.broker.broker_fault import write_fault
from roboco.broker.broker_owner import Deployment, ForeignBroker, check_broker_owner, read_owner
from roboco.broker.health.bootstep import QUEUE_INFIX
from roboco.broker.names import COORDINATOR_QUEUE, QUEUES, queue_lanes
from roboco.broker.queues import redis_lists
from roboco.cli.doctor.check import CheckResult, expect
from roboco.client.operator.operations import QueueReport
from roboco.client.orchestrator import Orchestrator
from roboco.client.wiring import producer_app
from roboco.engine.worker_status import workspace_name
from roboco.errors import RobocoError, TransientError, UsageError
from roboco.redis.server_error import BROKER_URL_SETTING, explain
from roboco.settings import Settings
from roboco.workspace.open import open_workspace

LISTED_WORKERS: Final = 20
"""Workers of a pool that are named at most."""
MAX_MESSAGE_AGE: Final = 60.0
"""Seconds for which a message may wait in a queue."""
_ROBOCO_EXCHANGES = frozenset(
    {"celeryev", "celery.pidbox", "reply.celery.pidbox", *(lane for name in QUEUES for lane in queue_lanes(name))}
)
"""The exchanges of Roboco: kombu keeps their bindings, for its workers and for producers that declare its queues."""
_BINDING_PREFIX = "_kombu.binding."
MIN_RABBITMQ: Final = (3, 12)
"""The oldest RabbitMQ whose queues can set a time limit for acknowledgements, as those of Roboco do."""
MAX_KEYS: Final = 10_000
"""Keys of each kind that are read: a database of Roboco alone has few."""
_STORE_TIMEOUT: Final = 5.0
"""The most seconds to wait for an answer of the store, which has the id of this deployment."""
_READ_LISTS = frozenset(name for queue in QUEUES for name in redis_lists(queue))


def check_broker(settings: Settings) -> Iterator[CheckResult]:
    """Check that the broker accepts messages, and that each pool has a live worker."""
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
        shared = [*_check_shared_database(app), _check_owner(app, settings)]
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
    yield from _check_pools(settings)


def _check_rabbitmq(connection: Any) -> list[CheckResult]:
    """Check that a RabbitMQ allows long tool calls. Return no check for another broker."""
    if connection.transport.driver_type != "amqp":
        return []
    version = str(connection.connection.server_properties.get("version", "0"))
    new = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= MIN_RABBITMQ
    todo = "use 3.12 or newer, or raise its consumer_timeout above your longest tool call (30 minutes are usual)"
    return [expect("broker version", new, f"RabbitMQ {version}", todo)]


def _check_pools(settings: Settings) -> Iterator[CheckResult]:
    """Check that each pool has a live worker, and a short queue, by the numbers that `roboco top` shows."""
    try:
        with Orchestrator(settings.model_copy(update={"tenant": None})) as orchestrator:
            found = orchestrator.operator.operations.workers(LISTED_WORKERS).workers
            queues = orchestrator.operator.operations.queues()
    except TransientError as error:
        yield CheckResult("workers", "fail", str(error), "check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL")
        return
    except UsageError as error:
        yield CheckResult("workers", "fail", f"not listed: {error}", "correct the variable")
        return
    live = [worker for worker in found if worker.alive and not worker.draining]
    for queue in queues:
        pool = queue.name.rpartition(".")[2]
        yield from _check_queue(queue, pool, sorted(one.name for one in live if pool in one.pools), bool(live))


def _check_queue(queue: QueueReport, pool: str, workers: list[str], any_worker: bool) -> Iterator[CheckResult]:
    todo = f"start one: celery -A roboco.workers.{pool} worker"
    if queue.name == COORDINATOR_QUEUE and not any_worker:
        todo += " (or one for everything: celery -A roboco.workers.app worker)"
    yield expect(f"queue {queue.name}", bool(workers), ", ".join(workers) or "no live worker", todo, "fail")
    if queue.waiting:
        age = queue.oldest_age or 0.0
        found = f"{queue.waiting} messages wait" + (f", the oldest for {age:.0f} s" if age else "")
        yield expect(f"backlog {pool}", age < MAX_MESSAGE_AGE, found, "start more workers of this pool")


def _check_owner(app: Celery, settings: Settings) -> CheckResult:
    """Check that the broker carries the messages of this deployment."""

    def own() -> Deployment:
        wait = min(_STORE_TIMEOUT, settings.s3_timeout)
        files = open_workspace(settings.workspace, settings.s3_endpoint_url, wait, attempts=1).files
        return Deployment(settings.prefix, workspace_name(files, settings.workspace_address).id)

    try:
        owner = read_owner(app, own)
        if owner is None:
            return CheckResult("broker deployment", "ok", "not recorded yet")
        check_broker_owner(app, own)
    except ForeignBroker as error:
        return CheckResult("broker deployment", "fail", "another deployment uses this broker", str(error))
    except RobocoError as error:
        return CheckResult("broker deployment", "warn", f"not compared: {error}", "check ROBOCO_WORKSPACE")
    return CheckResult("broker deployment", "ok", str(owner))


def _check_shared_database(app: Celery) -> Iterator[CheckResult]:
    """Check that no other Celery application uses the same Redis database, and that workers read all lists of it.

    An application may have another visibility timeout. Kombu adds settings of a producer to the names of its lists.
    """
    connections: Any = app.pool
    with connections.acquire(block=True) as connection:
        if connection.transport.driver_type != "redis":
            return
        client = connection.default_channel.client
        found_keys = client.scan_iter("*roboco.*", count=1000, _type="list")
        names = {key.decode(errors="backslashreplace") for key in islice(found_keys, MAX_KEYS)}
        bindings = islice(client.scan_iter(f"{_BINDING_PREFIX}*", count=1000), MAX_KEYS)
        others = {key.decode().removeprefix(_BINDING_PREFIX) for key in bindings} - _ROBOCO_EXCHANGES
    visible = TRANSPORT_OPTIONS["visibility_timeout"]
    found = (
        f"also used for {', '.join(sorted(others)[:5])}" if others else f"ours alone, visibility timeout {visible} s"
    )
    todo = "name a separate database in ROBOCO_BROKER_URL: the shortest visibility timeout in a database counts for all"
    yield expect("broker database", not others, found, todo)
    unread = sorted(name for name in names - _READ_LISTS if QUEUE_INFIX not in name and ".celery.pidbox" not in name)
    todo = (
        "remove global_keyprefix, sep and priority_steps from broker_transport_options of the producer, and move them"
    )
    found = f"no worker reads the lists {', '.join(map(repr, unread[:5]))}" if unread else "workers read all lists"
    yield expect("unread messages", not unread, found, todo, "fail")
