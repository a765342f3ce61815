"""Checks of what a task needs at run time: Redis, the broker, the workers, the workspace."""

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from statistics import median
from typing import Any

from celery import Celery
from kombu.exceptions import KombuError
from kombu.utils.url import maybe_sanitize_url
from redis.exceptions import RedisError

from roboco.adapters.celery.names import COORDINATOR_QUEUE, QUEUES
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.dead import RedisDeadLetters
from roboco.adapters.redis.keys import Keys
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.open import open_workspace
from roboco.cli.check import Check, State
from roboco.client.wiring import producer
from roboco.errors import RobocoError
from roboco.ports import Files
from roboco.settings import Settings

_LEAST = (7, 0)
"""The oldest Redis that has what the scripts need; a Valkey names the Redis that it speaks like."""
_INSPECT = 1.5
"""Seconds for workers to answer."""


def check_redis(settings: Settings, named: bool) -> Iterator[Check]:
    """Whether Redis answers, how fast, and whether it keeps what it is told.

    Without an address in the environment (`named`) it is not missed: `roboco run` brings its own.
    """
    where = maybe_sanitize_url(settings.redis_url)
    try:
        with connect(settings.redis_url) as client:
            facts: dict[str, Any] = client.info()
            trip = median(_timed(client.ping) for _ in range(9))
            letters = RedisDeadLetters(lambda: client, Keys(settings.prefix)).count()
    except (RedisError, RobocoError, OSError) as error:
        todo = "check ROBOCO_REDIS_URL and that the server runs"
        if not named:
            todo = "run `roboco dev`, or set ROBOCO_REDIS_URL; `roboco run` and `roboco demo` bring their own"
        yield Check("redis", "fail" if named else "warn", f"{where}: {error}", todo)
        return
    version = str(facts.get("redis_version", "0"))
    name = f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else f"Redis {version}"
    found = f"{name} at {where}, round trip {trip * 1000:.1f} ms"
    recent = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= _LEAST
    yield Check("redis", "ok" if recent else "fail", found, "" if recent else "use Redis 7.0 or newer, or Valkey")
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    yield _wanted("redis memory", policy == "noeviction", f"maxmemory-policy {policy}", "set it to noeviction")
    kept = bool(facts.get("aof_enabled"))
    todo = "set appendonly yes: else a restart begins every turn in flight again"
    yield _wanted("redis disk", kept, f"appendonly {'yes' if kept else 'no'}", todo)
    yield _wanted("dead letters", letters == 0, str(letters), "see `roboco dead`")


def check_broker(settings: Settings) -> Iterator[Check]:
    """Whether the broker takes messages, and who answers for each queue."""
    app = producer(settings)
    where = maybe_sanitize_url(settings.broker)
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
        answers = _queues(app)
    except (KombuError, RedisError, OSError) as error:
        yield Check("broker", "fail", f"{where}: {error}", "check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL")
        return
    finally:
        app.close()
    yield Check("broker", "ok", where)
    for queue in QUEUES:
        nodes = sorted(node for node, queues in answers.items() if queue in queues)
        module = queue.rpartition(".")[2]
        todo = f"start one: celery -A workers.{module} worker"
        if queue == COORDINATOR_QUEUE and not answers:
            todo += " (or one for everything: celery -A workers.app worker)"
        found = ", ".join(nodes) or f"no worker answered in {_INSPECT:g} s"
        yield Check(f"queue {queue}", "ok" if nodes else "fail", found, "" if nodes else todo)


def check_workspace(settings: Settings) -> Iterator[Check]:
    """Whether the workspace can be written, and lets only one of two writers win."""
    path = f"_doctor/{uuid.uuid4().hex}"
    began = time.monotonic()
    try:
        files = open_workspace(settings.workspace, settings.s3_endpoint_url, settings.s3_timeout).files
        try:
            won = files.create(path, b"first"), files.create(path, b"second")
            kept = files.get(path)
        finally:
            _remove(files, path)
    except (RobocoError, OSError) as error:
        yield Check(
            "workspace", "fail", str(error), "make ROBOCO_WORKSPACE name a folder or bucket that can be written"
        )
        return
    if won == (True, False) and kept == b"first":
        yield Check("workspace", "ok", f"{settings.workspace}, {(time.monotonic() - began) * 1000:.0f} ms for a check")
    else:
        found = f"{settings.workspace}: a second writer could replace a file of the first"
        yield Check("workspace", "fail", found, "use a store that honours If-None-Match, or a folder")


def _wanted(name: str, right: bool, found: str, todo: str) -> Check:
    state: State = "ok" if right else "warn"
    return Check(name, state, found, "" if right else todo)


def _queues(app: Celery) -> dict[str, set[str]]:
    """The queues that each worker consumes."""
    answers: dict[str, Any] = app.control.inspect(timeout=_INSPECT).active_queues() or {}
    return {node: {queue["name"] for queue in queues} for node, queues in answers.items()}


def _timed(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _remove(files: Files, path: str) -> None:
    files.delete(path)
    if isinstance(files, FolderFiles):
        with suppress(OSError):  # another doctor is at work
            files.at(path).parent.rmdir()
