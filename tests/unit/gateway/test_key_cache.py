"""The cache of keys: freshness, silence of the store, and floods of wrong ids."""

import asyncio
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from roboco.domain.access_key import AccessKey
from roboco.errors import TransientError
from roboco.gateway import key_cache
from roboco.gateway.calls import Calls
from roboco.gateway.key_cache import FRESH_SECONDS, RETRY_SECONDS, STALE_SECONDS, KeyCache
from roboco.gateway.problem import Problem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOOD = "aaaaaaaa"


def key(key_id: str = GOOD, **fields: Any) -> AccessKey:
    """Return a key."""
    return AccessKey(id=key_id, digest="0" * 64, created_at=NOW, **fields)


class Store:
    """A store of keys that counts its reads, and can be silent or broken."""

    def __init__(self) -> None:
        self.keys = {GOOD: key()}
        self.reads: list[str] = []
        self.broken = False
        self.open = threading.Event()
        self.open.set()
        self.now = 0.0
        self.calls = Calls(5.0)
        self.cache = KeyCache(self.find, self.calls, lambda: self.now)

    def find(self, key_id: str) -> AccessKey | None:
        """Return the key."""
        self.reads.append(key_id)
        self.open.wait(60)
        if self.broken:
            raise TransientError("the store is down")
        return self.keys.get(key_id)


@pytest.fixture
def store() -> Any:
    """Yield a store with one key."""
    made = Store()
    yield made
    made.open.set()
    made.calls.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test in an event loop."""
    asyncio.run(work)


def test_a_fresh_key_is_read_once(store: Store) -> None:
    async def work() -> None:
        assert await store.cache.get(GOOD) == key()
        store.now = FRESH_SECONDS - 0.1
        assert await store.cache.get(GOOD) == key()
        assert store.reads == [GOOD]
        store.now = FRESH_SECONDS + 0.1
        store.keys[GOOD] = key(revoked_at=NOW)
        found = await store.cache.get(GOOD)
        assert found is not None
        assert found.revoked_at == NOW

    run(work())


def test_concurrent_requests_share_a_read(store: Store) -> None:
    async def work() -> None:
        store.open.clear()
        waiting = [asyncio.create_task(store.cache.get(GOOD)) for _ in range(50)]
        await asyncio.sleep(0.05)
        store.open.set()
        assert await asyncio.gather(*waiting) == [key()] * 50
        assert store.reads == [GOOD]

    run(work())


def test_a_known_key_works_for_a_bounded_time_while_the_store_is_down(store: Store) -> None:
    async def work() -> None:
        await store.cache.get(GOOD)
        store.broken, store.now = True, FRESH_SECONDS + 1
        assert await store.cache.get(GOOD) == key()
        reads = len(store.reads)
        assert await store.cache.get(GOOD) == key()
        assert len(store.reads) == reads  # not tried again for each request
        store.now += RETRY_SECONDS + 0.1
        assert await store.cache.get(GOOD) == key()
        assert len(store.reads) == reads + 1
        store.now = STALE_SECONDS + 0.1
        with pytest.raises(Problem) as raised:
            await store.cache.get(GOOD)
        assert raised.value.status == 503

    run(work())


def test_a_flood_of_wrong_ids_neither_delays_nor_evicts_a_known_key(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "MAX_KEYS", 20)

    async def work() -> None:
        await store.cache.get(GOOD)
        store.open.clear()
        flood = [asyncio.create_task(store.cache.get(f"b{number:07}")) for number in range(200)]
        await asyncio.sleep(0.05)
        store.now = 1.0
        assert await store.cache.get(GOOD) == key()
        store.open.set()
        answers = await asyncio.gather(*flood, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, Problem)]
        assert {problem.status for problem in refused} == {503}
        assert len(refused) == 200 - 36
        store.now = FRESH_SECONDS + 1
        assert await store.cache.get(GOOD) == key()
        assert list(store.cache._keys) == [GOOD]

    run(work())
