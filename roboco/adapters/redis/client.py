"""Connections to Redis, with limits on every wait."""

from typing import Any

import redis
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.retry import Retry

from roboco.errors import UsageError

TIMEOUT = 5
"""Seconds for a connection, an answer, and between two health checks."""


def connect(url: str, max_connections: int = 250) -> redis.Redis:
    """A client for commands: a refused connection is tried again for about two seconds, silence is not."""
    return _client(url, max_connections=max_connections, socket_timeout=TIMEOUT)


def connect_subscriber(url: str) -> redis.Redis:
    """A client for channels, to be asked with a time-out: it notices a dead connection while nothing is said."""
    return _client(url, socket_timeout=TIMEOUT, socket_keepalive=True)


def connect_channels(url: str) -> Connection:
    """A connection for the channels of an event loop, not yet made: it gives up at once, and waits for messages."""
    retry = AsyncRetry(NoBackoff(), 0)
    limits: dict[str, Any] = {"socket_connect_timeout": TIMEOUT, "socket_timeout": None, "socket_keepalive": True}
    pool: Any = ConnectionPool.from_url(url, protocol=2, decode_responses=True, retry=retry, **limits)
    connection: Connection = pool.make_connection()
    return connection


def connect_briefly(url: str) -> redis.Redis:
    """A client for who must not wait: an answer within two seconds, or none."""
    return _client(url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))


def _client(url: str, **options: Any) -> redis.Redis:
    retry = Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5, supported_errors=(redis.ConnectionError,))
    try:
        return redis.Redis.from_url(
            url,
            **{
                "decode_responses": True,
                "socket_connect_timeout": TIMEOUT,
                "health_check_interval": TIMEOUT,
                "retry": retry,
                **options,
            },
        )
    except ValueError:  # whose message may quote the password
        raise UsageError(
            "ROBOCO_REDIS_URL is not possible: write redis://HOST:PORT/DATABASE, rediss:// or unix://"
        ) from None
