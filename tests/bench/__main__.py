"""`python -m tests.bench [NAME ...]`: run benches and print their results."""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from tests.bench import interrupts, streams, throughput, turn_cpu, turn_overhead
from tests.bench.harness import report
from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.process_stats import MAX_BACKGROUND_SHARE, BackgroundLoad
from tests.bench.harness.results import Result

BENCHES: dict[str, Callable[[BenchStack, Size], Iterator[Result]]] = {
    "turn_overhead": turn_overhead.measure,
    "interrupts": interrupts.measure,
    "throughput": throughput.measure,
    "turn_cpu": turn_cpu.measure,
    "streams": streams.measure,
}


def main() -> None:
    """Run the named benches, or all, on one stack."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}"
    console.print(f"{machine}, {_load()} at the beginning")
    results: list[Result] = []
    background: dict[str, float] = {}
    try:
        for share, name in _run_benches(options, results):
            background |= {} if share is None else {name: round(share, 3)}
            if options.json:  # after each bench, so that an interrupted run keeps its results
                report.write(options.json, results, {"machine": machine, "others": background})
    except KeyboardInterrupt:
        console.print("interrupted: these are the results until then")
    report.show(console, results)
    for name, share in background.items():
        if share > MAX_BACKGROUND_SHARE:
            console.print(f"{name}: others took {share:.0%} of the processors meanwhile, the machine was too noisy")
    console.print(
        f"{_load()} at the end; others took at most {max(background.values(), default=0):.0%} of the processors"
    )


def _run_benches(options: argparse.Namespace, results: list[Result]) -> Iterator[tuple[float | None, str]]:
    """Run one bench after the other. Yield the share of the processors that other processes took, and its name."""
    load = BackgroundLoad()
    with tempfile.TemporaryDirectory(prefix="roboco-bench-") as folder, BenchStack(Path(folder)) as stack:
        for name in options.names or BENCHES:
            began = time.monotonic()
            results += BENCHES[name](stack, Size(options.runs, options.size))
            share = load.take_share()
            took = f"{name}: {time.monotonic() - began:.0f} s, {_load()}"
            print(took, "" if share is None else f"others {share:.0%}", file=sys.stderr, flush=True)
            yield share, name


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Roboco beside its baselines.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHES)} (all of these by default)",
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds of each bench, after a warm-up round")
    parser.add_argument("--size", type=float, default=1.0, help="fraction of the full size in each round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures of every round")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; benches: {', '.join(BENCHES)}")
    if options.runs < 1 or options.size <= 0:
        parser.error("--runs must be 1 or more, and --size more than 0")
    return options


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
