"""Connections to Redis or to a Redis Cluster, with a limit on every wait."""

import random
from collections.abc import Sequence
from typing import Any, Final, cast

import redis
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import FullJitterBackoff, NoBackoff
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from roboco.errors import UsageError
from roboco.redis.cluster import BatchingCluster, LazyCluster, is_cluster, node_url, node_urls

TIMEOUT = 5
"""Seconds to connect, to wait for an answer, and between two health checks."""
_RETRIED_ERRORS: Final = (redis.ConnectionError, redis.ReadOnlyError)
"""Errors after which a command is repeated over a new connection. After a failover the old one leads to a replica."""


def connect(url: str, max_connections: int = 250) -> redis.Redis:
    """Return a client for commands. It retries a refused connection or a replica for two seconds, but no timeout.

    So a call waits for at most TIMEOUT seconds to connect, and as long for the answer of each server that it asks.
    `redis+cluster://HOST:PORT,HOST:PORT` names nodes of a cluster, of which one must answer.
    """
    return _make_client(url, max_connections=max_connections, socket_timeout=TIMEOUT)


def connect_fail_fast(url: str) -> redis.Redis:
    """Return a client for commands that fails fast: for a main loop, which must not wait."""
    limits: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2, "retry": Retry(NoBackoff(), 0)}
    return _make_client(url, **limits)


def connect_for_renewals(url: str, timeout: float) -> redis.Redis:
    """Return a client for renewals of leases: each wait ends after `timeout` seconds, or TIMEOUT if that is less.

    It repeats a command once if its connection was closed or leads to a replica. Later ones are left to the heartbeat.
    """
    wait = min(timeout, TIMEOUT)
    once = Retry(NoBackoff(), 1, supported_errors=_RETRIED_ERRORS)
    return _make_client(url, socket_timeout=wait, socket_connect_timeout=wait, health_check_interval=0, retry=once)


def connect_subscriber(url: str) -> redis.Redis:
    """Return a client for channels. Read it with a timeout, so that it finds a dead connection of a silent channel.

    In a cluster it connects to any node that answers, because every node receives all messages.
    """
    options: dict[str, Any] = {"socket_timeout": TIMEOUT, "socket_keepalive": True, "encoding_errors": "replace"}
    if not is_cluster(url):
        return _make_client(url, **options)
    with connect(url) as cluster:
        node = cast(Any, cluster).get_random_node()
    return _make_client(node_url(url, f"{node.host}:{node.port}"), **options)


def is_same_instance(client: redis.Redis, expected: str | None, keys: Sequence[str] = ()) -> bool:
    """Return True if this is the Redis instance with the id `expected`.

    In a cluster, each primary that answers must be part of that id. A primary that does not answer has lost nothing
    yet; a node that takes its place has another id. With keys, only their nodes are asked, and must answer.
    """
    if expected is None:
        return False
    known = set(expected.split())
    if _run_ids(client, keys) <= known:
        return True
    return isinstance(client, LazyCluster) and _run_ids(cast(redis.Redis, client.refresh()), keys) <= known


def instance_id(client: redis.Redis) -> str:
    """Return the id of this Redis instance. After a restart the id differs, and the last second of writes may be lost.

    In a cluster, return the ids of the primaries that answer. Raise redis.ConnectionError if none answers.
    """
    return " ".join(sorted(_run_ids(client)))


def server_time(client: redis.Redis) -> float:
    """Return the time of Redis in Unix seconds."""
    seconds, micros = cast(Any, client.time())
    return int(seconds) + int(micros) / 1e6


def _run_ids(client: redis.Redis, keys: Sequence[str] = ()) -> set[str]:
    if not isinstance(client, LazyCluster):
        return {_run_id(client)}
    cluster: Any = client
    if keys:
        nodes = {node.name: node for node in map(cluster.get_node_from_key, keys)}
        return {_run_id(cluster, target_nodes=node) for node in nodes.values()}
    runs, failed = set[str](), None
    for node in cluster.get_primaries():
        try:
            runs.add(_run_id(cluster, target_nodes=node))
        except (redis.ConnectionError, redis.TimeoutError, RedisClusterException) as error:
            failed = error
    if not runs:
        raise redis.ConnectionError(f"no primary of the cluster answers: {failed}")
    return runs


def _run_id(client: Any, **node: Any) -> str:
    return str(client.info("server", **node)["run_id"])


def channel_connection(url: str) -> Connection:
    """Return a connection for the channels of an event loop, not connected yet.

    It does not retry to connect, and waits for messages without a limit.
    """
    retry = AsyncRetry(NoBackoff(), 0)
    limits: dict[str, Any] = {"socket_connect_timeout": TIMEOUT, "socket_timeout": None, "socket_keepalive": True}
    node = random.choice(node_urls(url)) if is_cluster(url) else url  # noqa: S311 - every node receives all messages
    pool: Any = ConnectionPool.from_url(node, protocol=2, retry=retry, **limits)
    connection: Connection = pool.make_connection()
    return connection


def _make_client(url: str, **options: Any) -> redis.Redis:
    backoff = FullJitterBackoff(cap=1, base=0.05)
    retry = Retry(backoff, 5, supported_errors=_RETRIED_ERRORS)
    common: dict[str, Any] = {
        "decode_responses": True,
        "socket_connect_timeout": TIMEOUT,
        "health_check_interval": TIMEOUT,
        "retry": retry,
    }
    try:
        if is_cluster(url):
            return cast(redis.Redis, BatchingCluster(node_urls(url), common | options))
        return redis.Redis.from_url(url, **common | options)
    except ValueError:  # its message may contain the password
        raise UsageError(
            "ROBOCO_REDIS_URL is not possible: write redis://HOST:PORT/DATABASE, rediss://, unix://, or "
            "redis+cluster://HOST:PORT,HOST:PORT"
        ) from None
