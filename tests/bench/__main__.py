"""`python -m tests.bench [NAME ...]`: run benches and print what they measured."""

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from tests.bench import (
    commands,
    first_token,
    followers,
    history_length,
    interrupts,
    memory_search,
    parallel_tools,
    relay,
    report,
    silent,
    streams,
    throughput,
    token_cpu,
    turn_cpu,
    turn_overhead,
    turn_overhead_s3,
    unit_costs,
)
from tests.bench.figures import Result
from tests.bench.noise import NOISY, Noise
from tests.bench.stage import Size, Stage

BENCHES: dict[str, Callable[[Stage, Size], Iterator[Result]]] = {
    "turn_overhead": turn_overhead.measure,
    "turn_overhead_s3": turn_overhead_s3.measure,
    "first_token": first_token.measure,
    "relay": relay.measure,
    "followers": followers.measure,
    "history_length": history_length.measure,
    "interrupts": interrupts.measure,
    "memory_search": memory_search.measure,
    "commands": commands.measure,
    "throughput": throughput.measure,
    "turn_cpu": turn_cpu.measure,
    "unit_costs": unit_costs.measure,
    "parallel_tools": parallel_tools.measure,
    "silent": silent.measure,  # first of those that share an agents process with many threads: its memory is measured
    "token_cpu": token_cpu.measure,
    "streams": streams.measure,
}


def main() -> None:
    """Run the named benches, or all, on one stage."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}"
    console.print(f"{machine}, {_load()} at the beginning")
    results: list[Result] = []
    busy: dict[str, float] = {}
    try:
        for others, name in _measured(options, results):
            busy |= {} if others is None else {name: round(others, 3)}
            if options.json:  # after each, so that nothing is lost with a run that is cut off
                report.write(options.json, results, {"machine": machine, "others": busy})
    except KeyboardInterrupt:
        console.print("interrupted: this is what was measured until then")
    report.show(console, results)
    for name, others in busy.items():
        if others > NOISY:
            console.print(f"{name}: others took {others:.0%} of the processors meanwhile, the machine was too noisy")
    console.print(f"{_load()} at the end; others took at most {max(busy.values(), default=0):.0%} of the processors")
    if options.plots:
        plots = importlib.import_module("tests.bench.plots")  # matplotlib is there for it alone
        for path in plots.draw(results, options.plots, machine):
            console.print(f"drawn: {path}", soft_wrap=True)


def _measured(options: argparse.Namespace, results: list[Result]) -> Iterator[tuple[float | None, str]]:
    """Run one bench after the other: what part of the processors others had meanwhile, as far as is known."""
    noise = Noise()
    with tempfile.TemporaryDirectory(prefix="roboco-bench-") as folder, Stage(Path(folder)) as stage:
        for name in options.names or BENCHES:
            began = time.monotonic()
            results += BENCHES[name](stage, Size(options.runs, options.size))
            others = noise.taken()
            took = f"{name}: {time.monotonic() - began:.0f} s, {_load()}"
            print(took, "" if others is None else f"others {others:.0%}", file=sys.stderr, flush=True)
            yield others, name


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Roboco beside its limits.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHES)}; without one, all")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each bench, after one to warm up")
    parser.add_argument("--size", type=float, default=1.0, help="the part of the full size that each round has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures of every round there")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw the plots there")
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
