"""Connections to Redis, or to a Redis Cluster, with limits on every wait."""

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from roboco.adapters.redis.cluster import LazyCluster, any_node, first_node, is_cluster, nodes_of
from roboco.errors import UsageError

TIMEOUT = 5
"""Seconds for a connection, an answer, and between two health checks."""


def connect(url: str, max_connections: int = 250) -> redis.Redis:
    """A client for commands: a refused connection is tried again for about two seconds, silence is not.

    `redis+cluster://HOST:PORT,HOST:PORT` names nodes of a cluster, of which one has to answer.
    """
    return _client(url, max_connections=max_connections, socket_timeout=TIMEOUT)


def connect_briefly(url: str) -> redis.Redis:
    """A client for commands that fails soon: for a main loop, which must not wait."""
    limits: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2, "retry": Retry(NoBackoff(), 0)}
    return _client(url, **limits)


def connect_subscriber(url: str) -> redis.Redis:
    """A client for channels, to be asked with a time-out: it notices a dead connection while nothing is said.

    In a cluster it is one of any node that answers, since all of them hear what is published at one.
    """
    options: dict[str, Any] = {"socket_timeout": TIMEOUT, "socket_keepalive": True, "encoding_errors": "replace"}
    if not is_cluster(url):
        return _client(url, **options)
    with connect(url) as cluster:
        node = cast(Any, cluster).get_random_node()
    parts = urlsplit(first_node(url))
    credentials = f"{userinfo}@" if (userinfo := parts.netloc.rpartition("@")[0]) else ""
    return _client(urlunsplit(parts._replace(netloc=f"{credentials}{node.host}:{node.port}")), **options)


def same_run(client: redis.Redis, run: str | None) -> bool:
    """Return True if this is the run of Redis that `run_of` has named.

    In a cluster, each primary that answers must be one of those. A primary that does not answer has lost nothing yet:
    what takes its place is another run.
    """
    if run is None:
        return False
    known = set(run.split())
    if set(run_of(client).split()) <= known:
        return True
    return isinstance(client, LazyCluster) and set(run_of(cast(redis.Redis, client.anew())).split()) <= known


def run_of(client: redis.Redis) -> str:
    """Return the name of this run of Redis: another one may have lost the last second of the one before.

    In a cluster, the names of the primaries that answer. TransientError if none does.
    """
    if not isinstance(client, LazyCluster):
        server: Any = client.info("server")
        return str(server["run_id"])
    runs, failed = set[str](), None
    for node in cast(Any, client).get_primaries():
        try:
            answer: Any = client.info("server", target_nodes=node)
        except (redis.ConnectionError, redis.TimeoutError, RedisClusterException) as error:
            failed = error
        else:
            runs.add(str(answer["run_id"]))
    if not runs:
        raise redis.ConnectionError(f"no primary of the cluster answers: {failed}")
    return " ".join(sorted(runs))


def connect_channels(url: str) -> Connection:
    """A connection for the channels of an event loop, not yet made: it gives up at once, and waits for messages."""
    retry = AsyncRetry(NoBackoff(), 0)
    limits: dict[str, Any] = {"socket_connect_timeout": TIMEOUT, "socket_timeout": None, "socket_keepalive": True}
    node = any_node(url) if is_cluster(url) else url  # what is published at one node is heard at all
    pool: Any = ConnectionPool.from_url(node, protocol=2, retry=retry, **limits)
    connection: Connection = pool.make_connection()
    return connection


class _Retry(Retry):
    """Retries what may succeed: not a refused password, which redis-py counts as a lost connection."""

    def call_with_retry(
        self,
        do: Any,
        fail: Any,
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> Any:
        """Make the call, and repeat it if its error may pass."""

        def may_pass(error: Exception) -> bool:
            return not isinstance(error, redis.AuthenticationError) and (is_retryable is None or is_retryable(error))

        return super().call_with_retry(do, fail, may_pass, with_failure_count)


def _client(url: str, **options: Any) -> redis.Redis:
    retry = _Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5, supported_errors=(redis.ConnectionError,))
    common: dict[str, Any] = {
        "decode_responses": True,
        "socket_connect_timeout": TIMEOUT,
        "health_check_interval": TIMEOUT,
        "retry": retry,
    }
    try:
        if is_cluster(url):
            return cast(redis.Redis, LazyCluster(nodes_of(url), first_node(url), common | options))
        return redis.Redis.from_url(url, **common | options)
    except ValueError:  # whose message may quote the password
        raise UsageError(
            "ROBOCO_REDIS_URL is not possible: write redis://HOST:PORT/DATABASE, rediss://, unix://, or "
            "redis+cluster://HOST:PORT,HOST:PORT"
        ) from None
