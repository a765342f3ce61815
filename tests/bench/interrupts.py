"""interrupts: the time from the call of `Task.interrupt` to the close of the model's connection at the model server.

All the while, 50 tasks stream 20 tokens a second each, and 10 silent tasks wait for their first token. The bench
interrupts four streaming tasks and one silent task, one at a time, and then starts again. It continues with the next
task when the model has a new request of the last one and, if that task was streaming, streams again. The baseline is
plain PUBLISH: a subscriber in a separate process closes a connection to the same model server, beside the same streams.
The silent tasks are too few for a 99th percentile, so that theirs is the maximum.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import mean

from roboco import Task
from roboco.client.receipt import Receipt
from tests.bench.harness.bench_stack import BenchStack, Size, build_team, new_name
from tests.bench.harness.results import Measurement, Result, Sampler, measure_alternately, milliseconds, ratio
from tests.support.stack import until

STREAMING_TASKS, SILENT_TASKS = 50, 10
INTERVAL = 0.05
SLICES, STREAMING_PER_SLICE = 40, 4
"""The slices of all rounds; each interrupts this number of streaming tasks, and one silent task."""
GOAL = 200
"""Milliseconds within which 99 of 100 connections should be closed."""
TIMEOUT = 60.0
"""Seconds to wait for an event of the model, or for a task to end."""


class ModelLog:
    """The events of named requests, which the model prints."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._rest = ""
        self._last: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def wait(self, name: str, event: str, since: float = 0.0) -> float:
        """Wait until a request of this name has the event after `since`, and return the time of the event."""
        until(lambda: self._read().get((name, event), 0.0) > since, TIMEOUT, f"the request of {name} {event}")
        return self._last[name, event]

    def _read(self) -> dict[tuple[str, str], float]:
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            match line.split(" "):
                case [name, "begins" | "speaks" | "gone" as event, at]:
                    self._last[name, event] = float(at)
                case _:
                    pass
        return self._last


class _InterruptedTasks:
    """Tasks whose model calls do not end; `event` is the model's event that shows a running call."""

    def __init__(self, stack: BenchStack, log: ModelLog, prompt: str, tasks: int, event: str) -> None:
        team = build_team("writer", prompt=prompt + " {{ task.id }}")
        self.receipts: list[tuple[Task, Receipt]] = []
        self._log = log
        self._event = event
        self._tasks = [stack.orchestrator.run(team, "Go.") for _ in range(tasks)]
        self._turn = cycle(self._tasks)
        for task in self._tasks:
            log.wait(task.task_id, event)

    def interrupt(self, times: int) -> list[float]:
        """Interrupt the next tasks, and return the seconds from each call to the close of the connection."""
        return [self._interrupt(task) for task in islice(self._turn, times)]

    def stop(self) -> None:
        """Stop all tasks."""
        for task in self._tasks:
            task.stop()
        for task in self._tasks:
            assert task.result(TIMEOUT).status == "cancelled", f"{task} was not cancelled"

    def _interrupt(self, task: Task) -> float:
        began = time.monotonic()
        self.receipts.append((task, task.interrupt("Go on.")))
        gone = self._log.wait(task.task_id, "gone", began)
        self._log.wait(task.task_id, self._event, gone)
        return gone - began


class _PlainCloser:
    """The baseline: PUBLISH to a subscriber that closes a connection."""

    def __init__(self, stack: BenchStack, log: ModelLog, channel: str) -> None:
        self._redis = stack.redis
        self._log = log
        self._channel = channel
        until(lambda: self._redis.pubsub_numsub(channel)[0][1], TIMEOUT, "the closer listens")
        log.wait(channel, "begins")

    def close(self, times: int) -> list[float]:
        """Return the seconds from each PUBLISH to the close of the connection."""
        return [self._close() for _ in range(times)]

    def _close(self) -> float:
        began = time.monotonic()
        self._redis.publish(self._channel, "close")
        gone = self._log.wait(self._channel, "gone", began)
        self._log.wait(self._channel, "begins", gone)
        return gone - began


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure interrupts of streaming and of silent tasks, and plain closes, alternately."""
    log = ModelLog(stack.model_log)
    with closing(log), _plain_closer(stack, log) as plain:
        streaming = _InterruptedTasks(
            stack, log, f"endless {INTERVAL}", size.of(STREAMING_TASKS, STREAMING_PER_SLICE), "speaks"
        )
        silent = _InterruptedTasks(stack, log, "silent", size.of(SILENT_TASKS), "begins")
        samplers: dict[str, Sampler] = {
            "interrupt, streaming": lambda _: streaming.interrupt(STREAMING_PER_SLICE),
            "interrupt, silent": lambda _: silent.interrupt(1),
            "PUBLISH and close": lambda _: plain.close(STREAMING_PER_SLICE + 1),
        }
        measurements = measure_alternately(samplers, size.rounds, max(1, size.of(SLICES) // size.rounds))
        counts = f"streaming {_describe_chunks_after(streaming)}; silent {_describe_chunks_after(silent)}"
        streaming.stop()
        silent.stop()
    streaming_times, silent_times, baseline = measurements
    both = _join("interrupt, both", streaming_times, silent_times)
    goal = milliseconds("interrupt, both, p99", [both.percentile(99)], GOAL)
    yield Result(
        "interrupts",
        (both, *measurements),
        (ratio(both, baseline), goal),
        (f"chunks after the request, by the receipts: {counts}",),
    )


@contextmanager
def _plain_closer(stack: BenchStack, log: ModelLog) -> Iterator[_PlainCloser]:
    channel = new_name("closer")
    options = {"url": stack.settings.redis_url, "channel": channel, "model": stack.model.base_url}
    with stack.running_process("tests.bench.processes.connection_closer", **options):
        yield _PlainCloser(stack, log, channel)


def _join(name: str, first: Measurement, second: Measurement) -> Measurement:
    return Measurement(name, tuple(mine + yours for mine, yours in zip(first.rounds, second.rounds, strict=True)))


def _describe_chunks_after(live: _InterruptedTasks) -> str:
    """Return the numbers of chunks after the requests, those of the warm-up round included, as text."""
    counts = [task.receipt(receipt.item_id).chunks_after for task, receipt in live.receipts]
    known = [chunks for chunks in counts if chunks is not None]
    assert known, "no receipt says how many chunks came after the request"
    unknown = len(counts) - len(known)
    text = f"{mean(known):.2f} on average, {max(known)} at most, of {len(known)}"
    return f"{text}, {unknown} unknown" if unknown else text
