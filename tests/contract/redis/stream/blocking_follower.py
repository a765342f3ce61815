"""A follower for tests that run in a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.position import Record, StreamPosition


class BlockingFollower:
    """An asynchronous follower that runs in the event loop of a thread until `close`.

    `close` fails if a task of asyncio is left in the loop.
    """

    def __init__(self, follower: RedisFollower) -> None:
        self.replay = follower.replay
        self._follower = AsyncFollower(follower)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def follow(self, task_id: str, position: StreamPosition) -> Generator[Record | None]:
        """Yield the messages after the position."""
        return self._each(self._follower.follow(task_id, position))

    def changes(self, task_id: str) -> Generator[Record | None]:
        """Yield each event, and None where the task may have changed."""
        return self._each(self._follower.changes(task_id))

    def _each(self, records: AsyncGenerator[Record | None, None]) -> Generator[Record | None]:
        try:
            while True:
                yield self._wait(anext(records))
        finally:
            self._wait(records.aclose())

    def close(self) -> None:
        """End the loop, and check that no task is left in it."""
        left = self._wait(_unfinished_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert left == []

    def _wait(self, coroutine: Any) -> Any:
        async def run() -> Any:
            return await coroutine

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)


async def _unfinished_tasks() -> list[str]:
    """Wait for the cancelled tasks of the loop. Return the tasks that still run."""
    async with asyncio.timeout(60):
        while (tasks := asyncio.all_tasks() - {asyncio.current_task()}) and all(task.cancelling() for task in tasks):
            await asyncio.wait(tasks)
    return [repr(task) for task in tasks]
