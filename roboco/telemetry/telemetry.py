"""The telemetry of a process: metrics, traces, and the log context. Each of the first two may be off."""

from collections.abc import Callable
from contextvars import Token
from types import TracebackType
from typing import Protocol

from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import MetricSpec, Operation, OperationSpan, Telemetry
from roboco.telemetry.log_context import LOG_CONTEXT, LogFields, log_fields


class TraceSpan(Protocol):
    """An open span of a trace."""

    def set_attributes(self, attributes: dict[str, str | int | float]) -> None:
        """Add attributes to the span."""

    def end(self, error: str = "") -> None:
        """End the span, with this type of error, if any."""

    def discard(self) -> None:
        """Discard the span: it is not sent."""


class TaskTracer(Protocol):
    """The spans of this process. All spans of a task belong to one trace."""

    def start_span(self, operation: Operation, task_id: str) -> TraceSpan:
        """Start a span. Later spans of this context become its children, unless the work is a model call."""

    def end_task(self, summary: TaskSummary) -> None:
        """Send the root span of the ended task."""

    def close(self) -> None:
        """Send the remaining spans."""


class ProcessTelemetry(Telemetry):
    """The telemetry of a process. Metrics, traces, or both may be off."""

    def __init__(self, record: Callable[..., None] | None, tracer: TaskTracer | None) -> None:
        self._record = record
        self._tracer = tracer

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""
        if self._record is not None:
            self._record(metric, value, *labels)

    def operation(self, operation: Operation) -> "_OpenOperation":
        """Return a context manager: until its block ends, log lines and spans belong to this work."""
        return _OpenOperation(operation, self._tracer)

    def task_ended(self, summary: TaskSummary) -> None:
        """Send the root span of the ended task."""
        if self._tracer is not None:
            self._tracer.end_task(summary)

    def close(self) -> None:
        """Send the remaining spans."""
        if self._tracer is not None:
            self._tracer.close()


class _OpenOperation(OperationSpan):
    def __init__(self, operation: Operation, tracer: TaskTracer | None) -> None:
        self._operation = operation
        self._tracer = tracer
        self._log_fields: LogFields = {}
        self._token: Token[LogFields | None] | None = None
        self._span: TraceSpan | None = None

    def __enter__(self) -> OperationSpan:
        self._log_fields = (LOG_CONTEXT.get() or {}) | log_fields(vars(self._operation))
        if self._operation.kind != "model":  # a model call may end in any thread, and contains no other work
            self._token = LOG_CONTEXT.set(self._log_fields)
        if self._tracer is not None:
            self._span = self._tracer.start_span(self._operation, str(self._log_fields.get("task_id", "")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            self._span.end("" if kind is None else kind.__name__)
        if self._token is not None:
            LOG_CONTEXT.reset(self._token)

    def annotate(self, **facts: str | int | float) -> None:
        """Add attributes to the span."""
        self._log_fields.update(log_fields(dict(facts)))
        if self._span is not None:
            self._span.set_attributes(facts)

    def discard(self) -> None:
        """Discard the span, because this work belongs to another worker."""
        if self._span is not None:
            self._span.discard()
            self._span = None
