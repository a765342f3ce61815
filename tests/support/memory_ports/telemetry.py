"""Telemetry that keeps all records for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import MetricSpec, Operation, OperationSpan


class KeptTelemetry:
    """`begun` holds operations, `told` their annotations in the same order, or None if discarded; `tasks` have ended."""

    def __init__(self) -> None:
        self.noted: list[tuple[MetricSpec, float, tuple[str, ...]]] = []
        self.begun: list[Operation] = []
        self.told: list[dict[str, Any] | None] = []
        self.tasks: list[TaskSummary] = []

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        """Keep the call's arguments."""
        assert len(labels) == len(metric.labels)
        self.noted.append((metric, value, labels))

    @contextmanager
    def operation(self, operation: Operation) -> Iterator[OperationSpan]:
        """Keep the call's arguments."""
        self.begun.append(operation)
        self.told.append({})
        yield _Kept(self.told, len(self.told) - 1)

    def task_ended(self, summary: TaskSummary) -> None:
        """Keep the call's arguments."""
        self.tasks.append(summary)

    def of(self, figure: MetricSpec, *labels: str) -> list[float]:
        """Return the recorded values of the metric with these labels."""
        return [value for one, value, its in self.noted if one == figure and its == labels]


class _Kept:
    def __init__(self, told: list[dict[str, Any] | None], number: int) -> None:
        self._told = told
        self._number = number

    def annotate(self, **facts: str | int | float) -> None:
        self._told[self._number] = (self._told[self._number] or {}) | facts

    def discard(self) -> None:
        self._told[self._number] = None
