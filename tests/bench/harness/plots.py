"""Plots of the results of the benches, each a PNG file. Only this module needs matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from tests.bench.harness.results import Result, Series


@dataclass(frozen=True)
class Plot:
    """The labels and scales of a plot; with `bars`, points are drawn as bars instead of a line."""

    title: str
    x: str
    y: str
    x_log: bool = False
    y_log: bool = False
    bars: bool = False
    limit: float | None = None


PLOTS = {
    "latency_over_streams": Plot(
        "Way of a token, model to follower, through one process",
        "streams of 20 tokens a second",
        "ms",
        x_log=True,
        y_log=True,
        limit=250,
    ),
    "throughput_over_workers": Plot(
        "Tasks of three agents, all submitted at once",
        "processes of each pool, on the same processors",
        "tasks a second",
        bars=True,
    ),
}


def draw(results: Sequence[Result], folder: Path, caption: str) -> list[Path]:
    """Draw each plot that has points, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, plot in PLOTS.items():
        series = [one for result in results for one in result.series if one.plot == name]
        if series:
            paths.append(folder / f"{name}.png")
            _draw_plot(plot, series, caption).savefig(paths[-1], dpi=120)
    return paths


def _draw_plot(plot: Plot, series: Sequence[Series], caption: str) -> Figure:
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    kinds = list(dict.fromkeys(_kind(one) for one in series))
    for place, one in enumerate(series):
        xs, ys = [x for x, _ in one.points], [y for _, y in one.points]
        if plot.bars:
            width = 0.8 / len(series)
            bars = axes.bar([x + (place - (len(series) - 1) / 2) * width for x in xs], ys, width, label=one.name)
            axes.bar_label(bars, fmt="%.0f")
        else:
            style = ":" if one.name.endswith("p50") else "-"
            axes.plot(xs, ys, style, marker="o", color=f"C{kinds.index(_kind(one))}", label=one.name)
    if plot.limit is not None:
        axes.axhline(plot.limit, color="grey", linestyle="--", linewidth=1, label=f"goal for p99: {plot.limit:g}")
    _scale_axes(axes, plot, series)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    axes.legend(frameon=False)
    figure.text(0.99, 0.01, caption, ha="right", va="bottom", fontsize=7, color="grey")
    return figure


def _kind(series: Series) -> str:
    """Return the name without the percentile: its lines share one colour."""
    return series.name.partition(", p")[0]


def _scale_axes(axes: Axes, plot: Plot, series: Sequence[Series]) -> None:
    if plot.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(sorted({x for one in series for x, _ in one.points}))
    axes.minorticks_off()
    if plot.y_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(0, 1.2 * max(y for one in series for _, y in one.points))
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
