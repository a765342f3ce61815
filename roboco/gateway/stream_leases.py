"""StreamLeases: the open streams of this process, which Redis leases to it for each caller.

    open ─► count here ─► lease of the new number ─► refused: 429
    close ─► count here ─► soon a lease of the new number, for all streams that have closed meanwhile
    every RENEW_SECONDS ─► the numbers again: an emptied Redis learns them, and a lost answer does no harm
    the process dies ─► its lease ends after half a minute

A lease is a number, not an entry for each stream, so 10,000 silent streams of one caller cost one command every ten
seconds. Leases that overlap may be stored in the other order; the next renewal corrects the number.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

from roboco.client.caller_accounts import Account, RedisCallerCounts
from roboco.errors import RobocoError
from roboco.gateway.calls import CallLine
from roboco.gateway.problem import Problem, rate_limited

Owner: TypeAlias = tuple[str, str]
"""A tenant, and the identity of a caller."""

RENEW_SECONDS: Final = 10.0
"""Seconds between two renewals: a third of a lease."""
RELEASE_DELAY: Final = 0.1
"""Seconds in which closed streams are collected, before their number is stored."""


class StreamLeases:
    """The numbers of open streams, by caller and by tenant. Use it in one event loop."""

    def __init__(self, counts: RedisCallerCounts, line: CallLine) -> None:
        self._counts = counts
        self._line = line
        self._process = uuid.uuid4().hex[:16]
        self._own: dict[Owner, int] = {}
        self._shared: Counter[str] = Counter()
        self._latest: dict[Owner, Account] = {}
        self._closed: set[Owner] = set()
        self._wake = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def stream(self, account: Account | None) -> AsyncIterator[None]:
        """Hold a stream until the block ends; with None hold nothing. It leaves without waiting.

        Raise Problem `rate_limited` if there are too many.
        """
        of_tenant = account is not None and account.tenant and account.shared.open_streams
        if account is None or (account.own.open_streams is None and not of_tenant):
            yield
            return
        owner = (account.tenant, account.by)
        self._latest[owner] = account  # its limits may have changed
        self._count(owner, 1)
        try:
            numbers = self._own[owner], self._shared[account.tenant]
            refused = await self._line.run(self._counts.hold_streams, account, self._process, *numbers)
            if refused is not None:
                raise rate_limited(refused.limit, refused.seconds)
            yield
        finally:  # without waiting, so that it works while the request is cancelled
            self._count(owner, -1)
            self._closed.add(owner)
            self._wake.set()

    def close(self) -> None:
        """Stop renewing. The leases of this process end by themselves."""
        if self._renewing is not None:
            self._renewing.cancel()

    def _count(self, owner: Owner, change: int) -> None:
        self._own[owner] = self._own.get(owner, 0) + change
        self._shared[owner[0]] += change
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        """Renew the leases until no stream is open and each number 0 is stored."""
        loop = asyncio.get_running_loop()
        all_renewed_at = loop.time()
        while self._own:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(all_renewed_at + RENEW_SECONDS):
                    await self._wake.wait()
                    await asyncio.sleep(RELEASE_DELAY)
            self._wake.clear()
            due, self._closed = self._closed, set()
            if loop.time() >= all_renewed_at + RENEW_SECONDS:
                due, all_renewed_at = set(self._own), loop.time()
            for owner in due:
                await self._renew_one(owner)

    async def _renew_one(self, owner: Owner) -> None:
        account = self._latest[owner]
        numbers = self._own.get(owner, 0), self._shared[account.tenant]
        try:
            await self._line.run(self._counts.renew_streams, account, self._process, *numbers)
        except (Problem, RobocoError):
            return  # the next renewal repeats it; the number stays known here
        if numbers[0] == 0 == self._own[owner] and owner not in self._closed:  # else Redis has an earlier number
            del self._own[owner], self._latest[owner]
