"""relay: the time from the model's write of a chunk to its receipt by the follower, against PUBLISH of the same size.

Each chunk holds its time of sending. The followers run in one event loop, as in a web service, and so does the plain
subscriber, redis.asyncio. The plain publisher is one thread of a separate process, which reads the clock right before
each PUBLISH. The bench also measures a bare stream of the openai package: a relay cannot be faster than this stream and
PUBLISH together.

All streams begin together, when all are followed. All measurements omit the first half second of each stream and its
last chunk: all streams end together too, and the ends of their turns take the processors. The last chunk has a separate
row.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from redis.asyncio import Redis

from roboco import Task
from roboco.domain.stream.item import TextPartDelta
from roboco.redis.keys import Keys
from tests.bench.harness.bare_model import lags
from tests.bench.harness.bench_stack import BenchStack, Size, build_team, new_name
from tests.bench.harness.results import (
    Figure,
    Measurement,
    Result,
    Sampler,
    measure_alternately,
    milliseconds,
    percentile,
    ratio,
)

CHUNKS = 40
SKIPPED_CHUNKS = 10
INTERVAL = 0.05
STREAMS = 100
"""Streams to which the goal applies; the bench also measures a single stream."""
TIMEOUT = 60.0
Lags = list[list[float]]
"""The lags of the chunks of each stream, in their order."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure one stream of 20 chunks a second, and 100 streams at the same time."""
    chunks = size.of(CHUNKS, SKIPPED_CHUNKS + 5)
    size_of_message = _message_size(stack)
    for streams in (1, size.of(STREAMS, 2)):
        ends: list[tuple[float, ...]] = []
        samplers: dict[str, Sampler] = {
            "relay": partial(_run, partial(_relayed, stack, streams, chunks), ends),
            "plain PUBLISH": partial(_run, partial(_published, stack, streams, chunks, size_of_message), []),
            "bare model stream": partial(_streamed, stack, f"stream {chunks} {INTERVAL}", streams),
        }
        relay, publish, bare = measure_alternately(samplers, size.rounds)
        last = Measurement("the last chunk by relay", tuple(ends[1:]))
        ratios = (ratio(relay, publish), ratio(relay, publish, less=bare))
        goals = _goals(relay, publish) if streams > 1 else ()
        yield Result(f"relay, {streams} stream{'s' * (streams > 1)}", (relay, publish, bare, last), (*goals, *ratios))


def _goals(relay: Measurement, publish: Measurement) -> tuple[Figure, ...]:
    """Return the lag of the relay beyond that of plain PUBLISH, by round."""
    added = {
        percent: [
            percentile(sorted(mine), percent) - percentile(sorted(baseline), percent)
            for mine, baseline in zip(relay.rounds, publish.rounds, strict=True)
        ]
        for percent in (50, 99)
    }
    return milliseconds("added, median", added[50], 1), milliseconds("added, p99", added[99], 10)


def _message_size(stack: BenchStack) -> int:
    """Return the size of a message on a content channel."""
    task = stack.run_team(build_team("writer", prompt=f"stream 1 {INTERVAL}"))
    log: Any = stack.redis.xrevrange(Keys(stack.settings.prefix).content(task.task_id), count=1)
    return len(log[0][1]["m"])


def _run(measure: Callable[[], Coroutine[Any, Any, Lags]], ends: list[tuple[float, ...]], _: int) -> list[float]:
    found = asyncio.run(measure())
    ends.append(tuple(own[-1] for own in found))
    return _steady_lags(found)


async def _relayed(stack: BenchStack, streams: int, chunks: int) -> Lags:
    """Return the lags of tasks; the last request of their group follows when all tasks are followed."""
    prompt = f"together {streams + 1} {chunks} {INTERVAL} 0 {new_name('group')}"
    team = build_team("writer", prompt=prompt)
    tasks = [await asyncio.to_thread(stack.orchestrator.run, team, "Go.") for _ in range(streams)]
    async with asyncio.TaskGroup() as group:
        followed = [group.create_task(_follow(task)) for task in tasks]
        await _subscribed(stack, [Keys(stack.settings.prefix).content(task.task_id) for task in tasks])
        messages = [{"role": "system", "content": prompt}, {"role": "user", "content": "Go."}]
        await asyncio.to_thread(stack.bare_model.time_call, messages)
    return [follower.result() for follower in followed]


async def _follow(task: Task) -> list[float]:
    found: list[float] = []
    async with aclosing(task.astream()) as items:
        async for item in items:
            if isinstance(item.data, TextPartDelta):
                found += lags(item.data.text, time.time_ns())
    return found


def _streamed(stack: BenchStack, prompt: str, streams: int, _: int) -> list[float]:
    return _steady_lags(stack.bare_model.time_streams(prompt, streams, INTERVAL))


async def _published(stack: BenchStack, streams: int, chunks: int, size: int) -> Lags:
    name = new_name("bench")
    found: dict[str, list[float]] = {f"{name}:{number}": [] for number in range(streams)}
    options = {"channel": name, "streams": streams, "chunks": chunks, "interval": INTERVAL, "size": size}
    async with (
        asyncio.timeout(TIMEOUT),
        Redis.from_url(stack.valkey.url, decode_responses=True) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        await pubsub.subscribe(*found)
        await _subscribed(stack, list(found))
        with stack.running_process("tests.bench.processes.publisher", url=stack.valkey.url, **options):
            while any(len(own) < chunks for own in found.values()):
                message = await pubsub.get_message(timeout=1)
                if message is not None:
                    found[message["channel"]] += lags(json.loads(message["data"])["text"], time.time_ns())
    return list(found.values())


async def _subscribed(stack: BenchStack, channels: Sequence[str]) -> None:
    """Wait until each of the channels has a subscriber."""
    async with asyncio.timeout(TIMEOUT):
        while not all(count for _, count in stack.redis.pubsub_numsub(*channels)):
            await asyncio.sleep(0.01)


def _steady_lags(found: Lags) -> list[float]:
    return [lag for own in found for lag in own[SKIPPED_CHUNKS:-1]]
