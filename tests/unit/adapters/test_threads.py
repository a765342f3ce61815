"""Threads: who asks for the same shares an answer, but never one that was begun before it asked."""

import asyncio
import threading

import pytest

from roboco.adapters.threads import ThreadPool
from tests.support.stack import until


class Looks:
    """Counts itself; the first look lasts until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = threading.Event()

    def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        if number == 1:
            assert self.go.wait(10)
        return number


def test_a_look_that_was_begun_earlier_is_no_answer() -> None:
    async def main() -> None:
        threads, look = ThreadPool(4), Looks()
        first = asyncio.create_task(threads.run_shared("a", look))
        await asyncio.to_thread(until, lambda: look.begun, 10, "the first look is made")
        later = [asyncio.create_task(threads.run_shared("a", look)) for _ in range(5)]
        other = asyncio.create_task(threads.run_shared("b", lambda: 7))
        assert await other == 7
        look.go.set()
        assert await first == 1
        assert await asyncio.gather(*later) == [2] * 5
        assert threads._shared_calls == {}

    asyncio.run(asyncio.wait_for(main(), 20))


def test_who_is_cancelled_takes_nothing_from_the_others() -> None:
    async def main() -> None:
        threads, look = ThreadPool(4), Looks()
        leaves, stays = (asyncio.create_task(threads.run_shared("a", look)) for _ in range(2))
        await asyncio.to_thread(until, lambda: look.begun, 10, "the look is made")
        leaves.cancel()
        look.go.set()
        assert await stays in (1, 2)
        with pytest.raises(asyncio.CancelledError):
            await leaves

    asyncio.run(asyncio.wait_for(main(), 20))


def test_an_error_is_told_to_each_who_asked() -> None:
    def fail() -> None:
        raise OSError("gone")

    async def main() -> None:
        threads = ThreadPool(2)
        told = await asyncio.gather(*(threads.run_shared("a", fail) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in told] == ["gone"] * 3

    asyncio.run(asyncio.wait_for(main(), 20))
