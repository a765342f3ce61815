"""The evaluation of benchmark samples: ratios, goals, the report, noise and plots."""

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.harness import report
from tests.bench.harness.plots import PLOTS, draw
from tests.bench.harness.process_stats import BackgroundLoad, ProcessMeter
from tests.bench.harness.results import Figure, Goal, Measurement, Result, Series, milliseconds, ratio
from tests.bench.simulation import MARKS, checks, document
from tests.support.stack import ROOT

OURS = Measurement("ours", ((0.004, 0.006), (0.008,)))
HOPS, PUT, CALL = (
    Measurement("hops", ((0.002,), (0.002,))),
    Measurement("PUT", ((0.001,), (0.002,))),
    Measurement("call", ((0.002,), (0.0,))),
)


def test_ratio_divides_each_round_by_the_sum_of_its_limits() -> None:
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


def test_report_names_missed_goals_and_wide_spreads() -> None:
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


def test_own_cpu_time_is_no_noise() -> None:
    background, own = BackgroundLoad(), ProcessMeter(os.getpid())
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    share = background.take_share()
    assert own.cpu >= 0.2
    assert own.memory_mb > 1
    assert share is not None
    assert 0 <= share <= 1


def test_each_plot_is_drawn_from_its_points(tmp_path: Path) -> None:
    series = [Series(plot, f"{name}, p99", ((1.0, 2.0), (2.0, 3.0))) for plot in PLOTS for name in ("one", "two")]
    paths = draw([Result("bench", (), (), (), tuple(series))], tmp_path / "plots", "some machine")
    assert [path.stem for path in paths] == list(PLOTS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert draw([Result("bench", (), ())], tmp_path / "none", "some machine") == []


def test_the_guide_of_scaling_has_the_tables_of_the_simulation() -> None:
    guide = (ROOT / "roboco" / "docs" / "scaling.md").read_text()
    assert MARKS[0] in guide
    assert document(guide) == guide, "print the tables with `python -m tests.bench.simulation`"


def test_a_waiting_task_is_checked_after_doubling_times_and_then_once_a_day() -> None:
    """As `stay_waiting` does; `tests/unit/engine/operate/test_sweep.py` tests the same there."""
    hours = [minute / 60 for minute in checks(0, 4 * 1440)]
    assert hours == [1, 2, 4, 8, 16, 32, 56, 80]
