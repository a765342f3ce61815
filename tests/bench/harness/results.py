"""The results of a bench: measurements, figures, and the goals of the figures. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from roboco.domain.history.step import TaskStep

MAX_SPREAD = 0.3
"""Spread of the rounds' ratios, as a fraction of their median, up to which a ratio is trusted."""
RATIO_UNIT = "times, by round"
"""The unit of figures that are ratios."""
MIN_P99_SAMPLES = 100
"""Samples that a 99th percentile needs."""


@dataclass(frozen=True)
class Measurement:
    """The samples of one measured operation, in seconds, by round."""

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
        """The 99th percentile, by nearest rank; None if there are too few samples."""
        return self.percentile(99) if len(self.samples) >= MIN_P99_SAMPLES else None

    def percentile(self, percent: int) -> float:
        """Return this percentile, by nearest rank, of all samples, even if there are few."""
        return percentile(self.samples, percent)

    def record(self) -> dict[str, Any]:
        """Return the measurement as JSON, in milliseconds."""
        figures = {"median": median(self.samples), "p99": self.p99, "min": self.samples[0], "max": self.samples[-1]}
        rounded = {name: None if value is None else round(value * 1000, 3) for name, value in figures.items()}
        rounds = {
            name: [round(percentile(sorted(samples), percent) * 1000, 3) for samples in self.rounds]
            for name, percent in (("median", 50), ("p99", 99))
        }
        return {"name": self.name, **rounded, "samples": len(self.samples), "rounds": rounds}


@dataclass(frozen=True)
class Goal:
    """The bound of a figure: a maximum, or a minimum."""

    value: float
    at_least: bool = False

    def met(self, found: float) -> bool:
        """Return True if the value is within the bound."""
        return found >= self.value if self.at_least else found <= self.value


@dataclass(frozen=True)
class Figure:
    """A figure of a bench by round: a ratio to a baseline, or a value with a unit.

    A figure that is computed from the samples of all rounds has one value.
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
        """Whether the goal is met; None without a goal."""
        return None if self.goal is None else self.goal.met(self.value)

    @property
    def trusted(self) -> bool:
        """Whether there are several rounds with a small spread; a value with a unit is always trusted."""
        near = max(self.rounds) - min(self.rounds) <= MAX_SPREAD * self.value
        return bool(self.unit) or (len(self.rounds) > 1 and near)

    def record(self) -> dict[str, Any]:
        """Return the figure as JSON."""
        rounds = [round(found, 3) for found in self.rounds]
        record = {"name": self.name, "unit": self.unit or RATIO_UNIT, "median": median(rounds), "rounds": rounds}
        return record | {"trusted": self.trusted, "goal": self.goal and asdict(self.goal), "met": self.met}


@dataclass(frozen=True)
class Result:
    """The results of one bench, the most important figure first; `notes` are sentences beside the table."""

    bench: str
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "bench": self.bench,
            "measurements": [measurement.record() for measurement in self.measurements],
            "figures": [figure.record() for figure in self.figures],
            "notes": list(self.notes),
        }


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the percentile, by nearest rank, of samples in ascending order."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


Sampler = Callable[[int], Sequence[float]]
"""Function that returns the samples of the round with this number; 0 is the warm-up, whose samples are dropped."""


def measure_alternately(samplers: Mapping[str, Sampler], rounds: int, slices: int = 1) -> tuple[Measurement, ...]:
    """Return the measurements of all samplers, which take turns.

    In each round, every sampler is called `slices` times. One more round before the others warms up.
    """
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in samplers}
    for number in range(rounds + 1):
        samples: dict[str, list[float]] = {name: [] for name in samplers}
        for _ in range(slices):
            for name, sample in samplers.items():
                samples[name] += sample(number)
        for name in samplers if number else ():
            found[name].append(tuple(samples[name]))
    return tuple(Measurement(name, tuple(own)) for name, own in found.items())


def ratio(
    measurement: Measurement, *baselines: Measurement, less: Measurement | None = None, goal: float | None = None
) -> Figure:
    """Return the ratio to the sum of the baselines, by the medians of each round.

    `less` is subtracted from the measurement first.
    """
    off = less.medians if less else [0.0] * len(measurement.rounds)
    name = f"({measurement.name} - {less.name})" if less else measurement.name
    sums = [sum(medians) for medians in zip(*(one.medians for one in baselines), strict=True)]
    against = " + ".join(one.name for one in baselines)
    rounds = [(own - part) / baseline for own, part, baseline in zip(measurement.medians, off, sums, strict=True)]
    named = f"{name} / ({against})" if len(baselines) > 1 else f"{name} / {against}"
    return Figure(named, tuple(rounds), goal=None if goal is None else Goal(goal))


def milliseconds(name: str, seconds: Sequence[float], goal: float) -> Figure:
    """Return a figure in milliseconds, by round, with its maximum as the goal."""
    return Figure(name, tuple(second * 1000 for second in seconds), "ms", Goal(goal))


def turn_times(steps: Sequence[TaskStep]) -> list[float]:
    """Return the seconds between each two consecutive steps of agents."""
    return [
        (step.created_at - before.created_at).total_seconds()
        for before, step in pairwise(steps)
        if before.by_agent and step.by_agent
    ]
