"""The open streams of a process: counted at once, stored in batches, and corrected by renewals."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from roboco.client.caller_accounts import Account, LimitReached
from roboco.domain.access_key import CallerLimits
from roboco.errors import TransientError
from roboco.gateway import stream_leases
from roboco.gateway.calls import CallLine
from roboco.gateway.problem import Problem
from roboco.gateway.stream_leases import StreamLeases

FREE = CallerLimits()


def account(by: str = "key:one", tenant: str = "acme", limit: int | None = 100) -> Account:
    """Return an account with a limit of streams."""
    return Account(tenant, by, CallerLimits(open_streams=limit), FREE)


class Counts:
    """Records the numbers that are stored."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, int]] = {}
        self.commands = 0
        self.broken = False

    def hold_streams(self, account: Account, process: str, own: int, shared: int) -> LimitReached | None:
        """Store the numbers, unless the limit is reached."""
        if account.own.open_streams is not None and own > account.own.open_streams:
            self.commands += 1
            return LimitReached("open_streams", 5.0)
        self.renew_streams(account, process, own, shared)
        return None

    def renew_streams(self, account: Account, process: str, own: int, shared: int) -> None:
        """Store the numbers."""
        self.commands += 1
        if self.broken:
            raise TransientError("redis does not answer")
        self.held[account.by] = (own, shared)


def run(test: Any, kind: type[Counts] = Counts, **constants: float) -> None:
    """Run the test with leases in an event loop, with other times."""

    async def work() -> None:
        counts, line = kind(), CallLine("limit", 2, 1000, 5.0)
        leases = StreamLeases(counts, line)  # type: ignore[arg-type]
        try:
            await test(leases, counts)
        finally:
            leases.close()
            line.close()

    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(stream_leases, name, value)
        coroutine: Coroutine[Any, Any, None] = work()
        asyncio.run(coroutine)


async def until(condition: Any) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_streams_are_counted_by_caller_and_tenant() -> None:
    async def test(leases: StreamLeases, counts: Counts) -> None:
        async with leases.stream(account()), leases.stream(account("key:two")), leases.stream(account()):
            assert counts.held == {"key:one": (2, 3), "key:two": (1, 2)}
        await until(lambda: counts.held == {"key:one": (0, 0), "key:two": (0, 0)})
        await until(lambda: not leases._own and not leases._latest)

    run(test, RELEASE_DELAY=0.01)


def test_a_refused_stream_is_not_counted() -> None:
    async def test(leases: StreamLeases, counts: Counts) -> None:
        async with leases.stream(account(limit=1)):
            with pytest.raises(Problem) as raised:
                async with leases.stream(account(limit=1)):
                    pass
            assert (raised.value.status, raised.value.headers["Retry-After"]) == (429, "5")
            await until(lambda: counts.held == {"key:one": (1, 1)})
        async with leases.stream(account(limit=1)):
            pass

    run(test, RELEASE_DELAY=0.01)


def test_a_busy_caller_does_not_delay_the_renewal_of_a_silent_one() -> None:
    async def test(leases: StreamLeases, counts: Counts) -> None:
        async with leases.stream(account("key:silent")):
            counts.held.clear()  # Redis was emptied
            for _ in range(100):
                async with leases.stream(account("key:busy")):
                    await asyncio.sleep(0.005)
                if "key:silent" in counts.held:
                    return
            raise AssertionError("the silent caller's lease was not renewed")

    run(test, RENEW_SECONDS=0.1, RELEASE_DELAY=0.01)


def test_while_redis_is_silent_streams_are_refused_and_open_ones_stay() -> None:
    async def test(leases: StreamLeases, counts: Counts) -> None:
        async with leases.stream(account()):
            counts.broken = True
            with pytest.raises(TransientError):
                async with leases.stream(account()):
                    pass
            counts.held.clear()
            await asyncio.sleep(0.05)
            counts.broken = False
            await until(lambda: counts.held == {"key:one": (1, 1)})

    run(test, RENEW_SECONDS=0.02, RELEASE_DELAY=0.01)


class SlowCounts(Counts):
    """Answers a renewal once a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.renewing, self.may_answer = threading.Event(), threading.Event()

    def hold_streams(self, account: Account, process: str, own: int, shared: int) -> LimitReached | None:
        """Store the numbers."""
        self.held[account.by] = (own, shared)
        return None

    def renew_streams(self, account: Account, process: str, own: int, shared: int) -> None:
        """Store the numbers, and answer later."""
        super().renew_streams(account, process, own, shared)
        self.renewing.set()
        assert self.may_answer.wait(60)


def test_a_stream_that_closes_during_a_renewal_is_released_and_stops_no_other_renewal() -> None:
    async def test(leases: StreamLeases, counts: SlowCounts) -> None:
        async with leases.stream(account("key:silent")):
            async with leases.stream(account()):
                async with leases.stream(account()):
                    renewing = leases._renewing
                await until(counts.renewing.is_set)
                assert counts.held["key:one"] == (1, 2)
            counts.may_answer.set()
            await until(lambda: counts.held["key:one"] == (0, 1))
            await until(lambda: list(leases._own) == [("acme", "key:silent")])
            assert renewing is not None
            assert not renewing.done()

    run(test, SlowCounts, RELEASE_DELAY=0.01)


def test_many_streams_that_close_together_cost_one_command() -> None:
    async def test(leases: StreamLeases, counts: Counts) -> None:
        streams = [leases.stream(account(limit=1000)) for _ in range(500)]
        await asyncio.gather(*(one.__aenter__() for one in streams))
        before = counts.commands
        for one in streams:
            await one.__aexit__(None, None, None)
        await until(lambda: counts.held["key:one"] == (0, 0))
        assert counts.commands - before <= 2

    run(test, RELEASE_DELAY=0.05)
