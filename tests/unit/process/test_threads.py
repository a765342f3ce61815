"""ThreadPool: callers that ask for the same call share its result, but not one that started before they asked."""

import asyncio
import threading

import pytest

from roboco.process.threads import ThreadPool
from tests.support.stack import until


class NumberedCall:
    """A call that returns its number; the first one waits until it is released."""

    def __init__(self) -> None:
        self.started = 0
        self.release = threading.Event()

    def __call__(self) -> int:
        self.started += 1
        number = self.started
        if number == 1:
            assert self.release.wait(60)
        return number


def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    async def main() -> None:
        threads, call = ThreadPool(4), NumberedCall()
        cancelled, remaining = (asyncio.create_task(threads.run_shared("a", call)) for _ in range(2))
        await asyncio.to_thread(until, lambda: call.started, 10, "the call has started")
        cancelled.cancel()
        call.release.set()
        assert await remaining in (1, 2)
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(asyncio.wait_for(main(), 60))
