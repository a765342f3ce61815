"""Calculations of the benchmarks: ratios, goals, the report, noise and plots."""

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import report
from tests.bench.figures import Figure, Goal, Lane, Result, Series, milliseconds, ratio
from tests.bench.noise import Noise, Process
from tests.bench.plots import PLOTS, draw

OURS = Lane("ours", ((0.004, 0.006), (0.008,)))
HOPS, PUT, CALL = (
    Lane("hops", ((0.002,), (0.002,))),
    Lane("PUT", ((0.001,), (0.002,))),
    Lane("call", ((0.002,), (0.0,))),
)


def test_a_ratio_compares_each_round_with_the_sum_of_the_limits() -> None:
    figure = ratio(OURS, HOPS, PUT, less=CALL, goal=1.5)
    assert figure.name == "(ours - call) / (hops + PUT)"
    assert figure.rounds == pytest.approx((1.0, 2.0))
    assert figure.met


@pytest.mark.parametrize(
    ("goal", "met"), [(Goal(2), True), (Goal(1.9), False), (Goal(2, True), True), (Goal(2.1, True), False)]
)
def test_a_goal_is_met_or_missed(goal: Goal, met: bool) -> None:
    assert Figure("one", (1.0, 2.0, 9.0), goal=goal).met is met
    assert Figure("one", (1.0,)).met is None


def test_the_report_names_missed_goals_and_large_spreads() -> None:
    output = io.StringIO()
    console = Console(width=160, file=output)
    figures = (Figure("one", (1.0, 3.0), goal=Goal(1.5)), milliseconds("two", [0.004], 10))
    report.show(console, [Result("bench", (OURS,), figures, ("a note [of it]",))])
    text = output.getvalue()
    assert "bench: one: the goal is missed: 2.00, and not ≤ 1.5" in text
    assert "bench: one: the spread (1.00 - 3.00) is too large to trust" in text
    assert "4.00 ms" in text
    assert "≤ 10 met" in text
    assert "two: the" not in text
    assert "bench: a note [of it]" in text


def test_the_work_of_the_benchmark_is_no_noise() -> None:
    noise, own = Noise(), Process(os.getpid())
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    taken = noise.taken()
    assert own.cpu >= 0.2
    assert own.megabytes > 1
    assert taken is not None
    assert 0 <= taken <= 1


def test_each_plot_is_drawn_from_its_points(tmp_path: Path) -> None:
    series = [Series(plot, f"{name}, p99", ((1.0, 2.0), (2.0, 3.0))) for plot in PLOTS for name in ("one", "two")]
    paths = draw([Result("bench", (), (), (), tuple(series))], tmp_path / "plots", "some machine")
    assert [path.stem for path in paths] == list(PLOTS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert draw([Result("bench", (), ())], tmp_path / "none", "some machine") == []
