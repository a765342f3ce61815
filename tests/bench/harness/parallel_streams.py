"""Streams that speak at the same time, 20 chunks a second each, and what it took to relay them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roboco import Task
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.schedule import RedisSchedule
from roboco.adapters.redis.scripts import Scripts
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team, new_name
from tests.bench.harness.process_stats import ProcessMeter
from tests.bench.harness.raw_subscriber import RawSubscriber
from tests.support.stack import until

INTERVAL = 0.05
EDGE_CHUNKS = 5
"""Chunks at the beginning and at the end of each stream that are left out: others have not begun, or have ended."""
AGENTS_THREADS = 512
"""Turns that the agents process can make at the same time here."""


@dataclass(frozen=True)
class StreamStats:
    """Seconds from the model's writing of a chunk to its being heard, chunks a second, and CPU seconds of a chunk.

    `ends` are those of the last chunks: all streams end within 50 ms, and what comes after that takes the processors.
    """

    lags: tuple[float, ...]
    ends: tuple[float, ...]
    rate: float
    cpu: dict[str, float]

    def cpu_shares(self) -> str:
        """What part of a processor everybody took, relays first."""
        return ", ".join(f"{name} {seconds * self.rate:.0%}" for name, seconds in self.cpu.items())


class StreamRelays:
    """Relays by Roboco, in one agents process with many threads, and by the loops of tests.bench.processes.relay_loop."""

    def __init__(self, stack: BenchStack) -> None:
        self._stack = stack
        self._keys = Keys(stack.settings.prefix)
        self._agents = stack.agents_with_threads(AGENTS_THREADS)
        self._jobs = new_name("jobs")
        named = {"url": stack.valkey.url, "model": stack.model.base_url, "jobs": self._jobs}
        self._loop_process = stack.start_process("tests.bench.processes.relay_loop", **named)
        task = stack.run_team(build_team("writer", prompt=f"stream 1 {INTERVAL}"))
        log: Any = stack.redis.xrevrange(self._keys.content(task.task_id), count=1)
        self._size = len(log[0][1]["m"])

    def relay_by_roboco(self, streams: int, chunks: int) -> StreamStats:
        """One task for each stream."""
        names = [new_name("task") for _ in range(streams)]
        team = build_team("writer", prompt=_prompt(streams, chunks))
        schedule = RedisSchedule(Scripts(self._stack.redis), self._keys)
        before = schedule.count()

        def begin() -> list[Task]:
            return [self._stack.orchestrator.run(team, "Go.", task_id=name) for name in names]

        stats = self._measure([self._keys.content(name) for name in names], chunks, self._agents, begin)
        until(lambda: schedule.count() <= before, TASK_TIMEOUT, "all tasks have ended")
        return stats

    def relay_by_loop(self, way: str, streams: int, chunks: int) -> StreamStats:
        """One request of this way for each stream."""
        channel = new_name("loop")
        job = {"way": way, "channel": channel, "size": self._size, "streams": streams}
        text = json.dumps(job | {"prompt": _prompt(streams, chunks)})
        channels = [f"{channel}:{number}" for number in range(streams)]
        return self._measure(channels, chunks, self._loop_process, lambda: self._stack.redis.rpush(self._jobs, text))

    def _measure(
        self, channels: list[str], chunks: int, relay: ProcessMeter, begin: Callable[[], object]
    ) -> StreamStats:
        streams, stack = len(channels), self._stack
        pids = {"model": stack.model_process.pid, "Redis": stack.valkey.pid}
        processes = {"who relays": relay} | {name: ProcessMeter(pid) for name, pid in pids.items()}
        with RawSubscriber(stack.valkey.url, channels) as subscriber:
            begin()
            until(lambda: len(subscriber.received) >= streams * EDGE_CHUNKS, TASK_TIMEOUT, "all streams have begun")
            began, since = (
                len(subscriber.received),
                {name: process.restart() for name, process in processes.items()},
            )
            until(
                lambda: len(subscriber.received) >= streams * (chunks - EDGE_CHUNKS),
                TASK_TIMEOUT,
                "no stream has ended yet",
            )
            ended, used = (
                len(subscriber.received),
                {name: process.cpu for name, process in since.items()},
            )
            until(lambda: len(subscriber.received) >= streams * chunks, TASK_TIMEOUT, "all is heard")
        first, last = (
            min(sent_at for sent_at, _ in subscriber.received),
            max(received_at for _, received_at in subscriber.received),
        )
        steady, ending = (
            first + EDGE_CHUNKS * INTERVAL * 1e9,
            max(sent_at for sent_at, _ in subscriber.received) - INTERVAL * 1e9,
        )
        lags = tuple(
            (received_at - sent_at) / 1e9 for sent_at, received_at in subscriber.received if steady < sent_at < ending
        )
        ends = tuple((received_at - sent_at) / 1e9 for sent_at, received_at in subscriber.received if sent_at >= ending)
        cpu = {name: seconds / (ended - began) for name, seconds in used.items()}
        return StreamStats(lags, ends, len(subscriber.received) / (last - first) * 1e9, cpu)


def shared_relays(stack: BenchStack) -> StreamRelays:
    """Those of the stage."""
    if "speakers" not in stack.shared:
        stack.shared["speakers"] = StreamRelays(stack)
    found: StreamRelays = stack.shared["speakers"]
    return found


def scale_chunks(size: Size, chunks: int) -> int:
    """So many chunks of each stream, but enough to have some that are counted."""
    return size.of(chunks, 3 * EDGE_CHUNKS)


def _prompt(streams: int, chunks: int) -> str:
    """Everybody begins half a second after the last one has asked."""
    return f"together {streams} {chunks} {INTERVAL} 0.5 {new_name('group')}"
