"""Telemetry that keeps all records for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import MetricSpec, Operation, OperationSpan, Telemetry


class MemoryTelemetry(Telemetry):
    """The recorded metrics, operations and ended tasks. `annotations` has an entry an operation, None if discarded."""

    def __init__(self) -> None:
        self.metrics: list[tuple[MetricSpec, float, tuple[str, ...]]] = []
        self.operations: list[Operation] = []
        self.annotations: list[dict[str, Any] | None] = []
        self.tasks: list[TaskSummary] = []

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        assert len(labels) == len(metric.labels)
        self.metrics.append((metric, value, labels))

    @contextmanager
    def operation(self, operation: Operation) -> Iterator[OperationSpan]:
        self.operations.append(operation)
        self.annotations.append({})
        yield _MemorySpan(self.annotations, len(self.annotations) - 1)

    def task_ended(self, summary: TaskSummary) -> None:
        self.tasks.append(summary)

    def values(self, figure: MetricSpec, *labels: str) -> list[float]:
        """Return the recorded values of the metric with these labels."""
        return [value for one, value, its in self.metrics if one == figure and its == labels]


class _MemorySpan(OperationSpan):
    def __init__(self, annotations: list[dict[str, Any] | None], number: int) -> None:
        self._annotations = annotations
        self._number = number

    def annotate(self, **facts: str | int | float) -> None:
        self._annotations[self._number] = (self._annotations[self._number] or {}) | facts

    def discard(self) -> None:
        self._annotations[self._number] = None
