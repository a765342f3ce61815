"""A follower that connects before its task is submitted, and records when each text arrives."""

import threading
import time

from roboco import Task
from roboco.domain.stream.item import TextPartDelta
from roboco.redis.keys import Keys
from roboco.redis.stream.follower import RedisFollower
from tests.bench.harness.bench_stack import BenchStack, new_name
from tests.support.stack import until


class ConnectedFollower:
    """A thread that follows a task with `Task.stream`; `texts` holds (ns since the epoch, text)."""

    def __init__(self, stack: BenchStack) -> None:
        self.task_id = new_name("task")
        self.texts: list[tuple[int, str]] = []
        self.first_text_at = 0.0
        keys, engine = Keys(stack.settings.prefix), stack.orchestrator._engine
        follower = RedisFollower(stack.redis, stack.settings.redis_url, keys, engine.stored_events.read)
        self._task = Task(self.task_id, engine, follower, stack.settings)
        self._channels = (keys.content(self.task_id), keys.events(self.task_id))
        self._stack = stack
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait_connected(self) -> "ConnectedFollower":
        """Return this follower as soon as Redis reports its subscriptions."""
        until(lambda: all(n for _, n in self._stack.redis.pubsub_numsub(*self._channels)), 30, "the follower listens")
        return self

    def join(self) -> None:
        """Wait until the task has ended."""
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self._task} has not ended"

    def _follow(self) -> None:
        for item in self._task.stream():
            if isinstance(item.data, TextPartDelta):
                self.first_text_at = self.first_text_at or time.perf_counter()
                self.texts.append((time.time_ns(), item.data.text))
