"""Figures: what a bench has measured, and what it comes to. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from roboco.domain.step import TaskStep

SPREAD = 0.3
"""How far the rounds' ratios may lie apart, as a part of their median, to be trusted."""
TAIL = 100
"""How many samples there must be for a 99th percentile."""


@dataclass(frozen=True)
class Lane:
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
        return percentile(self.samples, 99) if len(self.samples) >= TAIL else None

    def record(self) -> dict[str, Any]:
        """The lane as JSON, in milliseconds."""
        figures = {"median": median(self.samples), "p99": self.p99, "min": self.samples[0], "max": self.samples[-1]}
        rounded = {name: None if value is None else round(value * 1000, 3) for name, value in figures.items()}
        rounds = [[round(sample * 1000, 3) for sample in samples] for samples in self.rounds]
        return {"name": self.name, **rounded, "rounds": rounds}


@dataclass(frozen=True)
class Ratio:
    """How many times its limit something costs, by round."""

    name: str
    rounds: tuple[float, ...]

    @property
    def trusted(self) -> bool:
        """Whether there are rounds enough, and near enough to each other."""
        return len(self.rounds) > 1 and max(self.rounds) - min(self.rounds) <= SPREAD * median(self.rounds)

    def record(self) -> dict[str, Any]:
        """The ratio as JSON."""
        rounds = [round(ratio, 3) for ratio in self.rounds]
        return {"name": self.name, "median": median(rounds), "rounds": rounds, "trusted": self.trusted}


@dataclass(frozen=True)
class Result:
    """What one bench has measured; its first ratio is what it is for. `notes` are what no table holds."""

    bench: str
    lanes: tuple[Lane, ...]
    ratios: tuple[Ratio, ...]
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The result as JSON."""
        lanes, ratios = [lane.record() for lane in self.lanes], [ratio.record() for ratio in self.ratios]
        return {"bench": self.bench, "lanes": lanes, "ratios": ratios, "notes": list(self.notes)}


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The percentile, by nearest rank, of samples that begin with the lowest."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


Measure = Callable[[int], Sequence[float]]
"""Measures one lane for the round of this number; 0 is the warm-up, whose samples nobody keeps."""


def in_turn(lanes: Mapping[str, Measure], rounds: int, slices: int = 1) -> tuple[Lane, ...]:
    """The lanes, measured one after the other, so many slices of each in a round, after a round to warm up."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in lanes}
    for number in range(rounds + 1):
        samples: dict[str, list[float]] = {name: [] for name in lanes}
        for _ in range(slices):
            for name, measure in lanes.items():
                samples[name] += measure(number)
        for name in lanes if number else ():
            found[name].append(tuple(samples[name]))
    return tuple(Lane(name, tuple(own)) for name, own in found.items())


def difference(name: str, lane: Lane, less: Lane) -> Lane:
    """What of the lane is beyond the other one: sample by sample, which were taken in pairs."""
    pairs = zip(lane.rounds, less.rounds, strict=True)
    return Lane(name, tuple(tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs))


def ratio(lane: Lane, limit: Lane, less: Lane | None = None) -> Ratio:
    """The lane against its limit, by the medians of each round; `less` is taken off the lane first."""
    off = less.medians if less else [0.0] * len(lane.rounds)
    name = f"({lane.name} - {less.name})" if less else lane.name
    rounds = [(mine - part) / limit for mine, part, limit in zip(lane.medians, off, limit.medians, strict=True)]
    return Ratio(f"{name} / {limit.name}", tuple(rounds))


def turn_times(steps: Sequence[TaskStep]) -> list[float]:
    """Seconds from one agent's step to the next one's, where they follow each other."""
    return [
        (step.created_at - before.created_at).total_seconds()
        for before, step in pairwise(steps)
        if before.by_agent and step.by_agent
    ]
