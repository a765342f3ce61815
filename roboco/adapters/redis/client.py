"""Connections to Redis, with limits on every wait."""

from typing import Any

import redis
from redis.backoff import ExponentialWithJitterBackoff
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


def _client(url: str, **options: Any) -> redis.Redis:
    retry = Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5, supported_errors=(redis.ConnectionError,))
    try:
        return redis.Redis.from_url(
            url,
            decode_responses=True,
            socket_connect_timeout=TIMEOUT,
            health_check_interval=TIMEOUT,
            retry=retry,
            **options,
        )
    except ValueError:  # whose message may quote the password
        raise UsageError(
            "ROBOCO_REDIS_URL is not possible: write redis://HOST:PORT/DATABASE, rediss:// or unix://"
        ) from None
