"""The telemetry of a process: metrics, traces, and the log context. Each of the first two may be off."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import MetricSpec, Operation, OperationSpan, Telemetry

LogFields = dict[str, str | int]
LOG_CONTEXT: ContextVar[LogFields | None] = ContextVar("roboco_log_context", default=None)
"""The fields that name the current work in every log line: `task_id`, `step`, `agent`, `tool_call_id`.

As a context variable it follows the work to the loop that runs model streams, and to threads that run in a copy of the
context. Each piece of work has one mapping object, so fields that are added later appear in all these places.
"""
_LOGGED_ATTRIBUTES = {"agent": "agent", "tool": "tool", "task_id": "task_id", "seq": "step", "call_id": "tool_call_id"}
"""The attributes of an operation that log lines contain, with their names there."""


class ProcessTelemetry(Telemetry):
    """The telemetry of a process. Metrics, traces, or both may be off.

    `tracer` is a `Tracer`, whose module needs the extra `otel`.
    """

    def __init__(self, record: Callable[..., None] | None, tracer: Any | None) -> None:
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


def _log_fields(attributes: dict[str, str | int | float | None]) -> LogFields:
    """Return the attributes that log lines contain, under their names there."""
    return {
        _LOGGED_ATTRIBUTES[name]: value
        for name, value in attributes.items()
        if name in _LOGGED_ATTRIBUTES and isinstance(value, str | int) and value != ""
    }


class _OpenOperation(OperationSpan):
    def __init__(self, operation: Operation, tracer: Any | None) -> None:
        self._operation = operation
        self._tracer = tracer
        self._log_fields: LogFields = {}
        self._token: Token[LogFields | None] | None = None
        self._span: Any | None = None

    def __enter__(self) -> OperationSpan:
        self._log_fields = (LOG_CONTEXT.get() or {}) | _log_fields(vars(self._operation))
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
        self._log_fields.update(_log_fields(dict(facts)))
        if self._span is not None:
            self._span.set_attributes(facts)

    def discard(self) -> None:
        """Discard the span, because this work belongs to another worker."""
        if self._span is not None:
            self._span.discard()
            self._span = None
