"""Telemetry that keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import MetricSpec, Operation, OperationSpan


class KeptTelemetry:
    """`begun` is the work, `told` its facts in the same order, None where it was void; `tasks` have ended."""

    def __init__(self) -> None:
        self.noted: list[tuple[MetricSpec, float, tuple[str, ...]]] = []
        self.begun: list[Operation] = []
        self.told: list[dict[str, Any] | None] = []
        self.tasks: list[TaskSummary] = []

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        """Keep it."""
        assert len(labels) == len(metric.labels)
        self.noted.append((metric, value, labels))

    @contextmanager
    def operation(self, operation: Operation) -> Iterator[OperationSpan]:
        """Keep it."""
        self.begun.append(operation)
        self.told.append({})
        yield _Kept(self.told, len(self.told) - 1)

    def task_ended(self, summary: TaskSummary) -> None:
        """Keep it."""
        self.tasks.append(summary)

    def of(self, figure: MetricSpec, *labels: str) -> list[float]:
        """The values of the figure with these labels."""
        return [value for one, value, its in self.noted if one == figure and its == labels]


class _Kept:
    def __init__(self, told: list[dict[str, Any] | None], number: int) -> None:
        self._told = told
        self._number = number

    def annotate(self, **facts: str | int | float) -> None:
        self._told[self._number] = (self._told[self._number] or {}) | facts

    def discard(self) -> None:
        self._told[self._number] = None
