"""The report: one table of all results, what they note, and a line for each ratio that cannot be trusted."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Lane, Ratio, Result


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the table and what must be said of it."""
    table = Table(title="times in ms; ratios by round: median, lowest to highest")
    table.add_column("bench")
    table.add_column("measured", no_wrap=True)
    for name in ("median", "p99", "min - max", "RATIO"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        for number, lane in enumerate(result.lanes):
            table.add_row("" if number else result.bench, *_times(lane))
        for ratio in result.ratios:
            table.add_row("", f"[bold]{ratio.name}", "", "", _range(ratio), f"[bold]{median(ratio.rounds):.2f}")
        table.add_section()
    console.print(table)
    for result in results:
        doubts = [f"{ratio.name}: {_doubt(ratio)}" for ratio in result.ratios if not ratio.trusted]
        for line in (*result.notes, *doubts):
            console.print(f"{result.bench}: {line}", soft_wrap=True)


def write(path: Path, results: Sequence[Result]) -> None:
    """Store the figures of every round as JSON, times in milliseconds."""
    path.write_text(json.dumps([result.record() for result in results], indent=1) + "\n")


def _times(lane: Lane) -> tuple[str, str, str, str]:
    samples = lane.samples
    p99 = "" if lane.p99 is None else _ms(lane.p99)
    return lane.name, _ms(median(samples)), p99, f"{_ms(samples[0])} - {_ms(samples[-1])}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.{2 if abs(seconds) < 0.01 else 1}f}"


def _range(ratio: Ratio) -> str:
    return f"{min(ratio.rounds):.2f} - {max(ratio.rounds):.2f}"


def _doubt(ratio: Ratio) -> str:
    if len(ratio.rounds) < 2:
        return "one round says nothing of the spread, do not trust it"
    return f"the spread ({_range(ratio)}) is too large to trust, the machine is too noisy"
