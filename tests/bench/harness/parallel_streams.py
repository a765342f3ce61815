"""Parallel model streams of 20 chunks a second each, and the latency and CPU of relaying them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roboco import Task
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team, new_name
from tests.bench.harness.process_stats import ProcessMeter
from tests.bench.harness.raw_subscriber import RawSubscriber
from tests.support.stack import until

INTERVAL = 0.05
EDGE_CHUNKS = 5
"""Chunks at both ends of each stream that the CPU figures omit: other streams have not begun, or have ended."""
AGENTS_THREADS = 512
"""Turns that the agents process can run at the same time here."""


@dataclass(frozen=True)
class StreamStats:
    """The latency, the rate and the CPU of relayed chunks."""

    lags: tuple[float, ...]
    """Seconds from the model's write of a chunk to its receipt, without the first and last chunks."""
    ends: tuple[float, ...]
    """The same for the last chunks: all streams end within 50 ms, and the ends of the turns take the processors."""
    rate: float
    """Chunks a second."""
    cpu: dict[str, float]
    """CPU seconds for each chunk, by process."""

    def cpu_shares(self) -> str:
        """Return the share of a processor that each process took, the relay first."""
        return ", ".join(f"{name} {seconds * self.rate:.0%}" for name, seconds in self.cpu.items())


class StreamRelays:
    """Two relays: Roboco with one agents process of many threads, and the loops of tests.bench.processes.relay_loop."""

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
        """Relay each stream by one task, and return the statistics."""
        names = [new_name("task") for _ in range(streams)]
        team = build_team("writer", prompt=_prompt(streams, chunks))
        schedule = RedisSchedule(Scripts(self._stack.redis), self._keys)
        before = schedule.count()

        def begin() -> list[Task]:
            return [self._stack.orchestrator.run(team, "Go.", task_id=name) for name in names]

        stats = self._measure([self._keys.content(name) for name in names], chunks, self._agents, begin)
        until(lambda: schedule.count() <= before, TASK_TIMEOUT, "all tasks have ended")
        return stats

    def relay_by_loop(self, streams: int, chunks: int) -> StreamStats:
        """Relay each stream by one request of the process `relay_loop`, and return the statistics."""
        channel = new_name("loop")
        job = {"channel": channel, "size": self._size, "streams": streams}
        text = json.dumps(job | {"prompt": _prompt(streams, chunks)})
        channels = [f"{channel}:{number}" for number in range(streams)]
        return self._measure(channels, chunks, self._loop_process, lambda: self._stack.redis.rpush(self._jobs, text))

    def _measure(
        self, channels: list[str], chunks: int, relay: ProcessMeter, begin: Callable[[], object]
    ) -> StreamStats:
        streams, stack = len(channels), self._stack
        pids = {"model": stack.model_process.pid, "Redis": stack.valkey.pid}
        processes = {"relay": relay} | {name: ProcessMeter(pid) for name, pid in pids.items()}
        with RawSubscriber(stack.valkey.url, channels) as subscriber:
            begin()
            until(lambda: len(subscriber.received) >= streams * EDGE_CHUNKS, TASK_TIMEOUT, "all streams have begun")
            began = len(subscriber.received)
            since = {name: process.restart() for name, process in processes.items()}
            steady_chunks = streams * (chunks - EDGE_CHUNKS)
            until(lambda: len(subscriber.received) >= steady_chunks, TASK_TIMEOUT, "the streams are near their ends")
            ended = len(subscriber.received)
            used = {name: process.cpu for name, process in since.items()}
            until(lambda: len(subscriber.received) >= streams * chunks, TASK_TIMEOUT, "all chunks have arrived")
        first = min(sent_at for sent_at, _ in subscriber.received)
        last = max(received_at for _, received_at in subscriber.received)
        steady = first + EDGE_CHUNKS * INTERVAL * 1e9
        ending = max(sent_at for sent_at, _ in subscriber.received) - INTERVAL * 1e9
        times = [(sent_at, (received_at - sent_at) / 1e9) for sent_at, received_at in subscriber.received]
        lags = tuple(lag for sent_at, lag in times if steady < sent_at < ending)
        ends = tuple(lag for sent_at, lag in times if sent_at >= ending)
        cpu = {name: seconds / (ended - began) for name, seconds in used.items()}
        return StreamStats(lags, ends, len(subscriber.received) / (last - first) * 1e9, cpu)


def shared_relays(stack: BenchStack) -> StreamRelays:
    """Return the relays of the stack, created at the first call."""
    if "relays" not in stack.shared:
        stack.shared["relays"] = StreamRelays(stack)
    relays: StreamRelays = stack.shared["relays"]
    return relays


def scale_chunks(size: Size, chunks: int) -> int:
    """Return the scaled number of chunks of each stream, but enough for the CPU figures."""
    return size.of(chunks, 3 * EDGE_CHUNKS)


def _prompt(streams: int, chunks: int) -> str:
    """Return a prompt whose streams begin half a second after the last request of the group."""
    return f"together {streams} {chunks} {INTERVAL} 0.5 {new_name('group')}"
