"""The report: one table of all results, their notes, and a line for each ratio that cannot be trusted."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.harness.results import Figure, Goal, Measurement, Result


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the table, the notes, the missed goals and the doubtful ratios."""
    table = Table(title="times in ms; ratios by round: median, lowest to highest")
    table.add_column("bench")
    table.add_column("measured", no_wrap=True)
    for name in ("median", "p99", "min - max", "FIGURE", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        for number, measurement in enumerate(result.measurements):
            table.add_row("" if number else result.bench, *_times(measurement))
        for number, figure in enumerate(result.figures):
            first = result.bench if not (number or result.measurements) else ""
            table.add_row(first, f"[bold]{figure.name}", "", "", _range(figure), _bold(figure), _goal(figure))
        table.add_section()
    console.print(table)
    for result in results:
        doubts = [f"{figure.name}: {_doubt(figure)}" for figure in result.figures if not figure.trusted]
        missed = [f"{figure.name}: {_miss(figure)}" for figure in result.figures if figure.met is False]
        for line in (*result.notes, *missed, *doubts):
            console.print(f"{result.bench}: {line}", soft_wrap=True, markup=False)


def write(path: Path, results: Sequence[Result], machine: dict[str, Any]) -> None:
    """Store the results of every round as JSON, with times in milliseconds, and the facts about the machine."""
    path.write_text(json.dumps(machine | {"results": [result.record() for result in results]}, indent=1) + "\n")


def _times(measurement: Measurement) -> tuple[str, str, str, str]:
    samples = measurement.samples
    p99 = "" if measurement.p99 is None else _ms(measurement.p99)
    return measurement.name, _ms(median(samples)), p99, f"{_ms(samples[0])} - {_ms(samples[-1])}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.{2 if abs(seconds) < 0.01 else 1}f}"


def _number(value: float) -> str:
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def _bold(figure: Figure) -> str:
    return f"[bold]{_number(figure.value)} {figure.unit}".rstrip()


def _goal(figure: Figure) -> str:
    return "" if figure.goal is None else f"{_bound(figure.goal)} {'met' if figure.met else 'MISSED'}"


def _bound(goal: Goal) -> str:
    return f"{'≥' if goal.at_least else '≤'} {goal.value:g}"


def _miss(figure: Figure) -> str:
    assert figure.goal is not None, figure
    return f"the goal is missed: {_number(figure.value)} {figure.unit}".rstrip() + f", and not {_bound(figure.goal)}"


def _range(figure: Figure) -> str:
    lowest, highest = _number(min(figure.rounds)), _number(max(figure.rounds))
    return f"{lowest} - {highest}" if len(figure.rounds) > 1 or not figure.unit else ""


def _doubt(figure: Figure) -> str:
    if len(figure.rounds) < 2:
        return "one round says nothing of the spread, do not trust it"
    return f"the spread ({_range(figure)}) is too large to trust, the machine is too noisy"
