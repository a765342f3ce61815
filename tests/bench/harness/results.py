"""Figures: what a bench has measured, and what it comes to. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from roboco.domain.history.step import TaskStep

MAX_SPREAD = 0.3
"""How far the rounds' ratios may lie apart, as a part of their median, to be trusted."""
RATIO_UNIT = "times, by round"
"""The unit of what has none."""
MIN_P99_SAMPLES = 100
"""How many samples there must be for a 99th percentile."""


@dataclass(frozen=True)
class Measurement:
    """One of the things that are measured in turn: its samples, in seconds, by round."""

    name: str
    rounds: tuple[tuple[float, ...], ...]

    @property
    def samples(self) -> list[float]:
        """All samples, lowest first."""
        return sorted(sample for samples in self.rounds for sample in samples)

    @property
    def medians(self) -> list[float]:
        """The median of each round."""
        return [median(samples) for samples in self.rounds]

    @property
    def p99(self) -> float | None:
        """The 99th percentile, by nearest rank; None of too few samples."""
        return self.percentile(99) if len(self.samples) >= MIN_P99_SAMPLES else None

    def percentile(self, percent: int) -> float:
        """This percentile, by nearest rank, of all samples, however few."""
        return percentile(self.samples, percent)

    def record(self) -> dict[str, Any]:
        """The lane as JSON, in milliseconds."""
        figures = {"median": median(self.samples), "p99": self.p99, "min": self.samples[0], "max": self.samples[-1]}
        rounded = {name: None if value is None else round(value * 1000, 3) for name, value in figures.items()}
        rounds = {
            name: [round(percentile(sorted(samples), percent) * 1000, 3) for samples in self.rounds]
            for name, percent in (("median", 50), ("p99", 99))
        }
        return {"name": self.name, **rounded, "samples": len(self.samples), "rounds": rounds}


@dataclass(frozen=True)
class Goal:
    """What a figure is to be: so much at most, or at least."""

    value: float
    at_least: bool = False

    def met(self, found: float) -> bool:
        """Whether the figure is so."""
        return found >= self.value if self.at_least else found <= self.value


@dataclass(frozen=True)
class Figure:
    """What a bench comes to, by round: how many times its limit something costs, or so much of a unit.

    Of samples that were taken together there is one round.
    """

    name: str
    rounds: tuple[float, ...]
    unit: str = ""
    goal: Goal | None = None

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.goal.met(self.value)

    @property
    def trusted(self) -> bool:
        """Whether there are rounds enough, and near enough to each other; a number of a unit speaks for itself."""
        near = max(self.rounds) - min(self.rounds) <= MAX_SPREAD * self.value
        return bool(self.unit) or (len(self.rounds) > 1 and near)

    def record(self) -> dict[str, Any]:
        """The figure as JSON."""
        rounds = [round(found, 3) for found in self.rounds]
        record = {"name": self.name, "unit": self.unit or RATIO_UNIT, "median": median(rounds), "rounds": rounds}
        return record | {"trusted": self.trusted, "goal": self.goal and asdict(self.goal), "met": self.met}


@dataclass(frozen=True)
class Series:
    """A line of the plot of this name: its points, from the left to the right."""

    plot: str
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Result:
    """What one bench has measured; its first figure is what it is for. `notes` are what no table holds."""

    bench: str
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()

    def record(self) -> dict[str, Any]:
        """The result as JSON."""
        measurements, figures = (
            [measurement.record() for measurement in self.measurements],
            [figure.record() for figure in self.figures],
        )
        series = [asdict(one) for one in self.series]
        return {
            "bench": self.bench,
            "measurements": measurements,
            "figures": figures,
            "notes": list(self.notes),
            "series": series,
        }


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The percentile, by nearest rank, of samples that begin with the lowest."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


Sampler = Callable[[int], Sequence[float]]
"""Measures one lane for the round of this number; 0 is the warm-up, whose samples nobody keeps."""


def measure_alternately(measurements: Mapping[str, Sampler], rounds: int, slices: int = 1) -> tuple[Measurement, ...]:
    """The lanes, measured one after the other, so many slices of each in a round, after a round to warm up."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in measurements}
    for number in range(rounds + 1):
        samples: dict[str, list[float]] = {name: [] for name in measurements}
        for _ in range(slices):
            for name, measure in measurements.items():
                samples[name] += measure(number)
        for name in measurements if number else ():
            found[name].append(tuple(samples[name]))
    return tuple(Measurement(name, tuple(own)) for name, own in found.items())


def difference(name: str, measurement: Measurement, less: Measurement) -> Measurement:
    """What of the lane is beyond the other one: sample by sample, which were taken in pairs."""
    pairs = zip(measurement.rounds, less.rounds, strict=True)
    return Measurement(name, tuple(tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs))


def ratio(
    measurement: Measurement, *baselines: Measurement, less: Measurement | None = None, goal: float | None = None
) -> Figure:
    """The lane against its limits together, by the medians of each round; `less` is taken off the lane first."""
    off = less.medians if less else [0.0] * len(measurement.rounds)
    name = f"({measurement.name} - {less.name})" if less else measurement.name
    baseline = [sum(medians) for medians in zip(*(one.medians for one in baselines), strict=True)]
    against = " + ".join(one.name for one in baselines)
    rounds = [(mine - part) / baseline for mine, part, baseline in zip(measurement.medians, off, baseline, strict=True)]
    named = f"{name} / ({against})" if len(baselines) > 1 else f"{name} / {against}"
    return Figure(named, tuple(rounds), goal=None if goal is None else Goal(goal))


def milliseconds(name: str, seconds: Sequence[float], goal: float) -> Figure:
    """So many milliseconds by round, and how many they are to be at most."""
    return Figure(name, tuple(second * 1000 for second in seconds), "ms", Goal(goal))


def turn_times(steps: Sequence[TaskStep]) -> list[float]:
    """Seconds from one agent's step to the next one's, where they follow each other."""
    return [
        (step.created_at - before.created_at).total_seconds()
        for before, step in pairwise(steps)
        if before.by_agent and step.by_agent
    ]
