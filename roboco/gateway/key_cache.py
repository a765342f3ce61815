"""KeyCache: the keys that callers have sent lately, so that a request costs no read of the workspace.

    id ─► cached and fresh ───────────────────────────────────────────────► key
      ├─► known, but older than FRESH_SECONDS ─► read (line of reads) ────► key; revoked within FRESH_SECONDS
      │                                            └── no answer in time ─► the cached key, for STALE_SECONDS
      └─► never seen ─► read (its own short line) ─► key, or none, which is not remembered
                          └── line full: 503

Anyone can send ids that do not exist. They wait in a line of their own and are not kept, so they neither delay nor
evict the keys that exist. Concurrent requests with one id share a read. The entry holds no secret.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roboco.domain.access_key import AccessKey
from roboco.errors import TransientError
from roboco.gateway.calls import Calls
from roboco.gateway.problem import Problem, unavailable

FRESH_SECONDS: Final = 10.0
"""Seconds after which a key is read again: the longest time until a revocation counts while the store answers."""
STALE_SECONDS: Final = 300.0
"""Seconds for which a key counts while the store does not answer."""
REFRESH_WAIT: Final = 1.0
"""Seconds that a request with a known key waits for the store."""
RETRY_SECONDS: Final = 5.0
"""Seconds for which known keys are not read again after the store has not answered."""
MAX_KEYS: Final = 10_000
"""Keys that a process remembers."""


@dataclass
class CachedKey:
    """A key as the store had it."""

    key: AccessKey
    read_at: float
    retry_at: float = 0.0
    """The time of the next read after one without an answer."""


class KeyCache:
    """Keys by id. Use it in one event loop."""

    def __init__(
        self, find: Callable[[str], AccessKey | None], calls: Calls, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._calls = calls
        self._clock = clock
        self._keys: OrderedDict[str, CachedKey] = OrderedDict()
        self._reads: dict[str, asyncio.Task[AccessKey | None]] = {}

    async def get(self, key_id: str) -> AccessKey | None:
        """Return the key, valid or not, or None if there is none. Raise Problem `unavailable` if it cannot be read."""
        cached, now = self._keys.get(key_id), self._clock()
        if cached is None:
            return await self._read(key_id, is_known=False)
        if now < max(cached.read_at + FRESH_SECONDS, cached.retry_at) and now < cached.read_at + STALE_SECONDS:
            return cached.key
        return await self._refresh(key_id, cached)

    async def _refresh(self, key_id: str, cached: CachedKey) -> AccessKey | None:
        """Read a known key again. Return the cached one if the store is silent, and the key is not too old."""
        try:
            async with asyncio.timeout(REFRESH_WAIT):
                return await self._read(key_id, is_known=True)
        except (TimeoutError, TransientError, Problem) as error:
            now = self._clock()
            if now >= cached.read_at + STALE_SECONDS:
                raise unavailable("the store of keys does not answer") from error
            cached.retry_at = now + RETRY_SECONDS
            return cached.key

    async def _read(self, key_id: str, is_known: bool) -> AccessKey | None:
        """Read the key, together with other requests for it. The read goes on if this request is cancelled."""
        read = self._reads.get(key_id)
        if read is None:
            line = self._calls.reads if is_known else self._calls.keys
            read = asyncio.create_task(line.run(self._find, key_id))
            self._reads[key_id] = read
            read.add_done_callback(lambda done: self._store(key_id, done))
        return await asyncio.shield(read)

    def _store(self, key_id: str, read: "asyncio.Task[AccessKey | None]") -> None:
        self._reads.pop(key_id, None)
        if read.cancelled() or read.exception() is not None:
            return
        self._keys.pop(key_id, None)
        if (key := read.result()) is not None:
            self._keys[key_id] = CachedKey(key, self._clock())  # the newest one
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)
