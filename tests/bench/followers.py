"""followers: the time from publishing a chunk to its receipt by 2,000 followers in one event loop, ten of each task.

The baseline is one plain connection of redis.asyncio that subscribes to the same number of channels with the same
messages, also in a separate process. Both subscribe all the time, and their chunks are published alternately. The tasks
exist only as logs. The notes hold the costs of the followers' process.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from roboco.domain.stream.event import StreamChunk, unnumbered_json
from roboco.redis.keys import Keys
from tests.bench.harness.bench_stack import BenchStack, Size, new_name
from tests.bench.harness.results import Result, Sampler, measure_alternately, ratio
from tests.support.stack import ROOT, until

FOLLOWERS, TASKS, CHUNKS = 2_000, 200, 10
CHUNKS_PER_SECOND = 200
"""Chunks a second, of all tasks together."""
TIMEOUT = 120.0
PUBLISH = (ROOT / "roboco/redis/lua/_publish.lua").read_text()


class FollowerGroup:
    """Tasks that only publish chunks, and the process that follows them.

    `rounds` holds the lines that the process has written; the first shows that all followers are connected.
    """

    def __init__(self, stack: BenchStack, tasks: int, followers: int, chunks: int) -> None:
        self.name = new_name("crowd")
        self.followers = followers
        self.stack = stack
        self.tasks = [f"{self.name}-{number}" for number in range(tasks)]
        self.chunks = chunks
        self._script: Any = stack.redis.register_script(
            f"{PUBLISH}\nreturn publish(KEYS[1], KEYS[2], 'chunks', 'events', ARGV[1])"
        )
        self.log = stack.folder / f"{self.name}.log"
        self.rounds: list[dict[str, Any]] = []

    @contextmanager
    def listening_process(self) -> Iterator[None]:
        """Run the process, with all followers connected, until the end of the block."""
        self.publish_first()
        url = f"{self.stack.settings.redis_url}?client_name={self.name}"
        sizes = {"tasks": len(self.tasks), "followers": self.followers, "chunks": self.chunks}
        named = {"url": url, "workspace": self.stack.settings.workspace, "name": self.name}
        with self.stack.running_process("tests.bench.processes.many_followers", output=self.log, **named, **sizes):
            until(lambda: self.read_rounds() == 1, TIMEOUT, "all followers are connected")
            yield

    def publish_first(self) -> None:
        """Publish the first chunk of each task."""
        for task in self.tasks:
            numbers: Any = {"generation": "a", "events": 0, "chunks": 0}
            self.stack.redis.hset(Keys().state(task), mapping=numbers)
            self._publish_chunk(task)

    def lags(self, _: int) -> list[float]:
        """Publish some chunks of each task. Return the seconds from publishing to each receipt."""
        rounds, due = len(self.rounds), time.monotonic()
        for _ in range(self.chunks):
            for task in self.tasks:
                time.sleep(max(0.0, due - time.monotonic()))
                due += 1 / CHUNKS_PER_SECOND
                self._publish_chunk(task)
        until(lambda: self.read_rounds() > rounds, TIMEOUT, "all chunks have arrived")
        lags: list[float] = self.rounds[-1]["lags"]
        return lags

    def connections(self) -> int:
        """Return the number of connections that the process has to Redis."""
        clients: Any = self.stack.redis.client_list()
        return sum(client["name"] == self.name for client in clients)

    def _publish_chunk(self, task: str) -> None:
        now = str(time.time_ns())
        chunk = StreamChunk(task_id=task, step_id=f"step_{'0' * 32}", agent_name="writer", attempt=1, text=now)
        self._script(keys=[Keys().state(task), Keys().content(task)], args=[unnumbered_json(chunk)])

    def read_rounds(self) -> int:
        """Read the lines that the process has written, and return their number."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        self.rounds += map(json.loads, lines[len(self.rounds) :])
        return len(self.rounds)


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure 2,000 followers of 200 tasks that publish a chunk a second each."""
    tasks, chunks = size.of(TASKS, 4), size.of(CHUNKS, 5)
    group = FollowerGroup(stack, tasks, size.of(FOLLOWERS, 40), chunks)
    plain = FollowerGroup(stack, tasks, 0, chunks)
    with group.listening_process(), plain.listening_process():
        samplers: dict[str, Sampler] = {"a follower": group.lags, "plain redis.asyncio subscriber": plain.lags}
        measurements = measure_alternately(samplers, size.rounds)
        connections = group.connections(), plain.connections()
    notes = (
        f"{group.followers} followers of {tasks} tasks: {connections[0]} connections to Redis, "
        f"{group.rounds[-1]['memory']:.0f} MB, {group.rounds[0]['cpu']:.1f} s of CPU until all follow; "
        f"one plain subscriber: {connections[1]}, "
        f"{plain.rounds[-1]['memory']:.0f} MB",
        f"CPU to deliver a chunk to one follower: {_cpu_per_chunk(group):.0f} µs; "
        f"to the plain subscriber: {_cpu_per_chunk(plain):.0f} µs",
    )
    yield Result("followers", measurements, (ratio(*measurements),), notes)


def _cpu_per_chunk(group: FollowerGroup) -> float:
    """Return the microseconds of CPU for each receipt of a chunk."""
    return median([float(of["cpu"]) / len(of["lags"]) for of in group.rounds[2:]]) * 1e6
