"""Connections to Redis, with limits on every wait."""

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

TIMEOUT = 5
"""Seconds for a connection, an answer, and between two health checks."""


def connect(url: str, max_connections: int = 250) -> redis.Redis:
    """A client for commands: a call that gets no answer is tried again for about two seconds."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        max_connections=max_connections,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        health_check_interval=TIMEOUT,
        retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5),
    )


def connect_subscriber(url: str) -> redis.Redis:
    """A client for channels: it waits as long as nothing is said, and notices a dead connection."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=None,
        socket_connect_timeout=TIMEOUT,
        socket_keepalive=True,
        health_check_interval=TIMEOUT,
        retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5),
    )
