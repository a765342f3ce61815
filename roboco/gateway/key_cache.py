"""KeyCache: the keys that callers have sent lately, so that a request costs no read of the workspace.

    id ─► cached and fresh ───────────────────────────────────────────────► key
      ├─► known, but older than FRESH_SECONDS ─► read (line of reads) ────► key; revoked within FRESH_SECONDS
      │                                            └── no answer in time ─► the cached key, for STALE_SECONDS
      └─► never seen ─► read (its own short line) ─► key, or none, which is remembered for ABSENT_SECONDS
                          └── line full: 503

Anyone can send ids that do not exist. They wait in a line of their own and fill a table of their own, so they neither
delay nor evict the keys that exist. Concurrent requests with one id share a read. The entry holds no secret.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from roboco.domain.access_key import AccessKey
from roboco.errors import TransientError
from roboco.gateway.calls import Calls
from roboco.gateway.problem import Problem, unavailable

CachedEntry = TypeVar("CachedEntry")

FRESH_SECONDS: Final = 10.0
"""Seconds after which a key is read again: the longest time until a revocation counts while the store answers."""
STALE_SECONDS: Final = 300.0
"""Seconds for which a key counts while the store does not answer."""
ABSENT_SECONDS: Final = 2.0
"""Seconds for which an id without a key is remembered."""
REFRESH_WAIT: Final = 1.0
"""Seconds that a request with a known key waits for the store."""
RETRY_SECONDS: Final = 5.0
"""Seconds for which known keys are not read again after the store has not answered."""
MAX_KEYS: Final = 10_000
"""Keys that a process remembers, and as many ids without a key."""


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
        self._absent: OrderedDict[str, float] = OrderedDict()
        self._reads: dict[str, asyncio.Task[AccessKey | None]] = {}

    async def get(self, key_id: str) -> AccessKey | None:
        """Return the key, valid or not, or None if there is none. Raise Problem `unavailable` if it cannot be read."""
        cached, now = self._keys.get(key_id), self._clock()
        if cached is None:
            return None if self._is_absent(key_id, now) else await self._read(key_id, is_known=False)
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
        key, now = read.result(), self._clock()
        if key is None:
            self._keys.pop(key_id, None)
            _put(self._absent, key_id, now + ABSENT_SECONDS)
        else:
            self._absent.pop(key_id, None)
            _put(self._keys, key_id, CachedKey(key, now))

    def _is_absent(self, key_id: str, now: float) -> bool:
        return now < self._absent.get(key_id, 0.0)


def _put(table: "OrderedDict[str, CachedEntry]", key_id: str, value: CachedEntry) -> None:
    """Store the value as the newest one, and remove the oldest one if there are too many."""
    table[key_id] = value
    table.move_to_end(key_id)
    if len(table) > MAX_KEYS:
        table.popitem(last=False)
