"""interrupts: from the call of `Task.interrupt` to the model's connection being gone, as the model server sees it.

50 streams speak all the while, 20 tokens a second each, and 10 have yet to say their first. Four that speak and one
that is silent are interrupted by turns, one at a time, and the next only when the model has been asked anew and, if it
was speaking, speaks again. The limit is plain PUBLISH: a subscriber in a process of its own closes a connection to the
same model server, beside the same streams. The silent ones are too few for a 99th percentile: it is their highest.

    python -m tests.bench.interrupts        this bench alone, with the pools that it needs
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import mean

from rich.console import Console

from roboco import Task
from roboco.client.receipt import Receipt
from tests.bench.harness import report
from tests.bench.harness.results import Lane, Measure, Result, in_turn, milliseconds, ratio
from tests.bench.harness.bench_stack import Size, Stage, fresh, team_of
from tests.support.stack import until

SPEAKING, SILENT = 50, 10
INTERVAL = 0.05
SLICES, SPOKEN = 40, 4
"""How many times some that speak are interrupted, and one that is silent."""
GOAL = 200
"""Milliseconds within which 99 of 100 connections are to be gone."""
SOON = 60.0
"""Seconds within which anything happens."""


class ModelLog:
    """What the model has printed of the named requests."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._rest = ""
        self._last: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def wait(self, name: str, event: str, since: float = 0.0) -> float:
        """When this last happened to a request of the name, as soon as it did after `since`."""
        until(lambda: self._read().get((name, event), 0.0) > since, SOON, f"the request of {name} {event}")
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


class _Live:
    """Tasks whose model streams without end; `event` is what shows that a stream is there."""

    def __init__(self, stage: Stage, log: ModelLog, prompt: str, tasks: int, event: str) -> None:
        team = team_of("writer", prompt=prompt + " {{ task.id }}")
        self.receipts: list[tuple[Task, Receipt]] = []
        self._log = log
        self._event = event
        self._tasks = [stage.orchestrator.run(team, "Go.") for _ in range(tasks)]
        self._turn = cycle(self._tasks)
        for task in self._tasks:
            log.wait(task.task_id, event)

    def interrupt(self, times: int) -> list[float]:
        """Seconds from the call to the connection's end, of so many tasks in turn."""
        return [self._interrupt(task) for task in islice(self._turn, times)]

    def stop(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.stop()
        for task in self._tasks:
            assert task.result(SOON).status == "cancelled", f"{task} was to be stopped"

    def _interrupt(self, task: Task) -> float:
        began = time.monotonic()
        self.receipts.append((task, task.interrupt("Go on.")))
        gone = self._log.wait(task.task_id, "gone", began)
        self._log.wait(task.task_id, self._event, gone)
        return gone - began


class _Plain:
    """The limit: PUBLISH, and a subscriber that closes."""

    def __init__(self, stage: Stage, log: ModelLog, channel: str) -> None:
        self._redis = stage.redis
        self._log = log
        self._channel = channel
        until(lambda: self._redis.pubsub_numsub(channel)[0][1], SOON, "the closer listens")
        log.wait(channel, "begins")

    def close(self, times: int) -> list[float]:
        """Seconds from PUBLISH to the connection's end."""
        return [self._close() for _ in range(times)]

    def _close(self) -> float:
        began = time.monotonic()
        self._redis.publish(self._channel, "close")
        gone = self._log.wait(self._channel, "gone", began)
        self._log.wait(self._channel, "begins", gone)
        return gone - began


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """Interrupts of speaking and of silent streams, and plain closings, by turns."""
    log = ModelLog(stage.model_log)
    with closing(log), _plain(stage, log) as plain:
        speaking = _Live(stage, log, f"endless {INTERVAL}", size.of(SPEAKING, SPOKEN), "speaks")
        silent = _Live(stage, log, "silent", size.of(SILENT), "begins")
        measures: dict[str, Measure] = {
            "interrupt, speaking": lambda _: speaking.interrupt(SPOKEN),
            "interrupt, silent": lambda _: silent.interrupt(1),
            "PUBLISH and close": lambda _: plain.close(SPOKEN + 1),
        }
        lanes = in_turn(measures, size.rounds, max(1, size.of(SLICES) // size.rounds))
        after = f"chunks after the request, by the receipts: speaking {_after(speaking)}; silent {_after(silent)}"
        speaking.stop()
        silent.stop()
    spoken, unspoken, limit = lanes
    both = _together("interrupt, both", spoken, unspoken)
    goal = milliseconds("interrupt, both, p99", [both.at(99)], GOAL)
    yield Result("interrupts", (both, *lanes), (ratio(both, limit), goal), (after,))


@contextmanager
def _plain(stage: Stage, log: ModelLog) -> Iterator[_Plain]:
    channel = fresh("closer")
    options = {"url": stage.settings.redis_url, "channel": channel, "model": stage.model.base_url}
    with stage.process("tests.bench.processes.connection_closer", **options):
        yield _Plain(stage, log, channel)


def _together(name: str, one: Lane, other: Lane) -> Lane:
    return Lane(name, tuple(mine + yours for mine, yours in zip(one.rounds, other.rounds, strict=True)))


def _after(live: _Live) -> str:
    """How many chunks came after the requests, those of the round to warm up included."""
    told = [task.receipt(receipt.item_id).chunks_after for task, receipt in live.receipts]
    known = [chunks for chunks in told if chunks is not None]
    assert known, "no receipt says how many chunks came after the request"
    unknown = len(told) - len(known)
    return f"{mean(known):.2f} on average, {max(known)} at most, of {len(known)}" + f", {unknown} unknown" * bool(
        unknown
    )


def main() -> int:
    """Measure on a stage of this bench's own, and print it; the exit code is 130 after Ctrl-C."""
    began = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="roboco-bench-") as folder,
            Stage(Path(folder), pools=("coordinator", "agents")) as stage,
        ):
            results = list(measure(stage, Size()))
    except KeyboardInterrupt:
        return 130
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    report.show(console, results)
    console.print(f"{time.monotonic() - began:.0f} s, from start to end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
