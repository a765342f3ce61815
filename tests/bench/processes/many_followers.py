"""A process with followers of many tasks, or with a plain subscriber to their channels.

    python -m tests.bench.processes.many_followers --url redis://... --workspace file:///... --output FILE \\
        --name NAME --tasks 200 --followers 2000 --chunks 10

It follows the tasks NAME-0, NAME-1, ... in one event loop; with `--followers 0` one connection of redis.asyncio
subscribes instead. It writes a line of JSON when every follower has received a chunk, or the subscriber is connected.
Then it writes one for each round, in which every task publishes `--chunks` chunks. A line holds the lags in seconds and
the CPU seconds and MB of memory of the process. It ends with SIGTERM.
"""

import argparse
import asyncio
import json
import math
import time
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from typing import Any

from redis.asyncio import Redis

from roboco import Orchestrator, Settings, Task
from roboco.redis.keys import Keys
from tests.bench.harness.bare_model import lags


class RoundLog:
    """The lags of the current round, written to a file when the round is complete."""

    def __init__(self, size: int, output: Path) -> None:
        self._size = size
        self._output = output
        self._lags: list[float] = []
        self._cpu = _cpu()

    def add(self, text: str) -> None:
        """Add the lag of a received chunk, and write the round if it is complete."""
        self._lags += lags(text, time.time_ns())
        if len(self._lags) == self._size:
            self.write_round()

    def write_round(self) -> None:
        """Write the round, and begin the next one."""
        now = _cpu()
        with self._output.open("a") as output:
            output.write(json.dumps({"lags": self._lags, "cpu": now - self._cpu, "memory": _memory()}) + "\n")
        self._lags, self._cpu = [], now


def _cpu() -> float:
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize() / 1e6


def task_of_logs(task_id: str, orchestrator: Orchestrator) -> Task:
    """Return a task that exists as logs alone: no worker can attend to it, so its followers do not check that."""
    task = Task(task_id, orchestrator._engine, orchestrator._follower, orchestrator.settings)
    task._stream.worker_check._due = math.inf
    return task


async def follow(options: argparse.Namespace, orchestrator: Orchestrator) -> None:
    """Follow all tasks in this event loop, as a web service does."""
    rounds = RoundLog(options.followers * options.chunks, options.output)
    waiting = set(range(options.followers))

    async def follow_one(number: int) -> None:
        name = f"{options.name}-{number % options.tasks}"
        async for item in task_of_logs(name, orchestrator).astream():
            shown: Any = item.data
            if number not in waiting:
                rounds.add(shown.text)
                continue
            waiting.remove(number)
            if not waiting:
                rounds.write_round()

    async with asyncio.TaskGroup() as group:
        for number in range(options.followers):
            group.create_task(follow_one(number))


async def subscribe(options: argparse.Namespace) -> None:
    """Subscribe to all channels with one plain connection."""
    rounds = RoundLog(options.tasks * options.chunks, options.output)
    channels = [Keys().content(f"{options.name}-{number}") for number in range(options.tasks)]
    async with Redis.from_url(options.url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe(*channels)
        await pubsub.get_message(timeout=1)
        rounds.write_round()
        while True:
            message = await pubsub.get_message(timeout=None)
            if message is not None:
                rounds.add(json.loads(message["data"])["text"])


def main() -> None:
    """Follow until SIGTERM."""
    parser = argparse.ArgumentParser(description="Followers of many tasks, for the benches.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--followers", type=int, required=True)
    parser.add_argument("--chunks", type=int, required=True)
    options = parser.parse_args()
    if not options.followers:
        asyncio.run(subscribe(options))
        return
    with Orchestrator(
        Settings(redis_url=options.url, broker_url=options.url.partition("?")[0], workspace=options.workspace)
    ) as orchestrator:
        asyncio.run(follow(options, orchestrator))


if __name__ == "__main__":
    main()
