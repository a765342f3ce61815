"""RedisTokenStore: what workers share about tokens for MCP servers. No token is stored in plain text."""

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

import redis

from roboco.process.per_process import PerProcess
from roboco.redis.client import connect
from roboco.redis.keys import Keys

LOCK_SECONDS = 60
"""Seconds after which the lock of a process that was killed ends."""
_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


class RedisTokenStore:
    """Entries and locks in Redis. If it does not answer, each worker gets its tokens by itself."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._client = PerProcess(lambda: connect(url))
        self._keys = keys

    def get(self, name: str) -> str | None:
        """Return the stored text, or None."""
        try:
            return cast(str | None, self._client().get(self._keys.mcp_token(name)))
        except redis.RedisError as error:
            _log.warning("tokens for MCP servers are not shared: %s", error)
            return None

    def put(self, name: str, value: str, seconds: int) -> None:
        """Store a text for these seconds."""
        with suppress(redis.RedisError):
            self._client().set(self._keys.mcp_token(name), value, ex=seconds)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Wait for the lock, and hold it. A lock that ends early leads to one token more."""
        key, token = f"{self._keys.mcp_token(name)}:lock", secrets.token_hex(16)
        until = time.monotonic() + LOCK_SECONDS
        with suppress(redis.RedisError):
            while not self._client().set(key, token, nx=True, ex=LOCK_SECONDS) and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            with suppress(redis.RedisError):
                if self._client().get(key) == token:
                    self._client().delete(key)
