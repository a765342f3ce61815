"""`python -m tests.bench [NAME ...]`: run benches and print what they measured."""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from tests.bench import first_token, followers, history_length, interrupts, memory_search, relay, report, turn_overhead
from tests.bench.figures import Result
from tests.bench.stage import Size, Stage

BENCHES: dict[str, Callable[[Stage, Size], Iterator[Result]]] = {
    "turn_overhead": turn_overhead.measure,
    "first_token": first_token.measure,
    "relay": relay.measure,
    "followers": followers.measure,
    "history_length": history_length.measure,
    "interrupts": interrupts.measure,
    "memory_search": memory_search.measure,
}


def main() -> None:
    """Run the named benches, or all, on one stage."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {_load()} at the beginning")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="roboco-bench-") as folder, Stage(Path(folder)) as stage:
        for name in options.names or BENCHES:
            began = time.monotonic()
            results += BENCHES[name](stage, Size(options.runs, options.size))
            print(f"{name}: {time.monotonic() - began:.0f} s, {_load()}", file=sys.stderr, flush=True)
    report.show(console, results)
    console.print(f"{_load()} at the end")
    if options.json:
        report.write(options.json, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Roboco beside its limits.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHES)}; without one, all")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each bench, after one to warm up")
    parser.add_argument("--size", type=float, default=1.0, help="the part of the full size that each round has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures of every round there")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}, possible are {', '.join(BENCHES)}")
    if options.runs < 1 or options.size <= 0:
        parser.error("--runs must be 1 or more, and --size more than 0")
    return options


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
