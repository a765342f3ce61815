"""Streams that speak at the same time, 20 chunks a second each, and what it took to relay them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roboco import Task
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.schedule import RedisSchedule
from roboco.adapters.redis.scripts import Scripts
from tests.bench.harness.raw_subscriber import Ear
from tests.bench.harness.process_stats import Process
from tests.bench.harness.bench_stack import PATIENCE, Size, Stage, fresh, team_of
from tests.support.stack import until

INTERVAL = 0.05
ENDS = 5
"""Chunks at the beginning and at the end of each stream that are left out: others have not begun, or have ended."""
THREADS = 512
"""Turns that the agents process can make at the same time here."""


@dataclass(frozen=True)
class Spoken:
    """Seconds from the model's writing of a chunk to its being heard, chunks a second, and CPU seconds of a chunk.

    `ends` are those of the last chunks: all streams end within 50 ms, and what comes after that takes the processors.
    """

    lags: tuple[float, ...]
    ends: tuple[float, ...]
    rate: float
    cpu: dict[str, float]

    def told(self) -> str:
        """What part of a processor everybody took, relays first."""
        return ", ".join(f"{name} {seconds * self.rate:.0%}" for name, seconds in self.cpu.items())


class Speakers:
    """Relays by Roboco, in one agents process with many threads, and by the loops of tests.bench.processes.relay_loop."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._keys = Keys(stage.settings.prefix)
        self._agents = stage.agents_of(THREADS)
        self._jobs = fresh("jobs")
        named = {"url": stage.valkey.url, "model": stage.model.base_url, "jobs": self._jobs}
        self._loop = stage.lasting("tests.bench.processes.relay_loop", **named)
        task = stage.finished(team_of("writer", prompt=f"stream 1 {INTERVAL}"))
        log: Any = stage.redis.xrevrange(self._keys.content(task.task_id), count=1)
        self._size = len(log[0][1]["m"])

    def roboco(self, streams: int, chunks: int) -> Spoken:
        """One task for each stream."""
        names = [fresh("task") for _ in range(streams)]
        team = team_of("writer", prompt=_prompt(streams, chunks))
        schedule = RedisSchedule(Scripts(self._stage.redis), self._keys)
        before = schedule.count()

        def begin() -> list[Task]:
            return [self._stage.orchestrator.run(team, "Go.", task_id=name) for name in names]

        spoken = self._heard([self._keys.content(name) for name in names], chunks, self._agents, begin)
        until(lambda: schedule.count() <= before, PATIENCE, "all tasks have ended")
        return spoken

    def loop(self, way: str, streams: int, chunks: int) -> Spoken:
        """One request of this way for each stream."""
        channel = fresh("loop")
        job = {"way": way, "channel": channel, "size": self._size, "streams": streams}
        text = json.dumps(job | {"prompt": _prompt(streams, chunks)})
        channels = [f"{channel}:{number}" for number in range(streams)]
        return self._heard(channels, chunks, self._loop, lambda: self._stage.redis.rpush(self._jobs, text))

    def _heard(self, channels: list[str], chunks: int, relay: Process, begin: Callable[[], object]) -> Spoken:
        streams, stage = len(channels), self._stage
        pids = {"model": stage.model_process.pid, "Redis": stage.valkey.pid}
        processes = {"who relays": relay} | {name: Process(pid) for name, pid in pids.items()}
        with Ear(stage.valkey.url, channels) as ear:
            begin()
            until(lambda: len(ear.heard) >= streams * ENDS, PATIENCE, "all streams have begun")
            began, since = len(ear.heard), {name: process.begin() for name, process in processes.items()}
            until(lambda: len(ear.heard) >= streams * (chunks - ENDS), PATIENCE, "no stream has ended yet")
            ended, used = len(ear.heard), {name: process.cpu for name, process in since.items()}
            until(lambda: len(ear.heard) >= streams * chunks, PATIENCE, "all is heard")
        first, last = min(sent for sent, _ in ear.heard), max(come for _, come in ear.heard)
        steady, ending = first + ENDS * INTERVAL * 1e9, max(sent for sent, _ in ear.heard) - INTERVAL * 1e9
        lags = tuple((come - sent) / 1e9 for sent, come in ear.heard if steady < sent < ending)
        ends = tuple((come - sent) / 1e9 for sent, come in ear.heard if sent >= ending)
        cpu = {name: seconds / (ended - began) for name, seconds in used.items()}
        return Spoken(lags, ends, len(ear.heard) / (last - first) * 1e9, cpu)


def speakers(stage: Stage) -> Speakers:
    """Those of the stage."""
    if "speakers" not in stage.kept:
        stage.kept["speakers"] = Speakers(stage)
    found: Speakers = stage.kept["speakers"]
    return found


def chunks_of(size: Size, chunks: int) -> int:
    """So many chunks of each stream, but enough to have some that are counted."""
    return size.of(chunks, 3 * ENDS)


def _prompt(streams: int, chunks: int) -> str:
    """Everybody begins half a second after the last one has asked."""
    return f"together {streams} {chunks} {INTERVAL} 0.5 {fresh('group')}"
