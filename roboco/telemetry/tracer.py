"""Traces of OpenTelemetry, one for each task, with the semantic conventions for generative AI.

Every process derives the ids of the trace and its root span from the task id, so no message has to carry them. The root
span is sent when the task ends; until then the other spans are children of a span that follows later. Spans contain no
text of users or models. Conventions: open-telemetry/semantic-conventions-genai, after v1.41.
"""

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.ports.telemetry import Operation

EXPORT_DELAY_MS = 1000
"""Milliseconds until spans are sent, unless OTEL_BSP_SCHEDULE_DELAY is set. A killed child loses no more."""
FLUSH_TIMEOUT_MS = 3000
"""Milliseconds to wait for the sending of the last spans."""

_OPERATIONS = {"turn": "invoke_agent", "model": "chat", "tool": "execute_tool"}
_ATTRIBUTES = {
    "agent": "gen_ai.agent.name",
    "tool": "gen_ai.tool.name",
    "model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
    "first_token_seconds": "gen_ai.response.time_to_first_chunk",
}
_NAME_ATTRIBUTES = {"turn": "agent", "tool": "tool"}
"""The attribute that is part of the name of a span of this kind."""
AttributeValue = str | int | float | Sequence[str]


def trace_ids(task_id: str) -> tuple[int, int]:
    """Return the ids of the task's trace and of its root span."""
    digest = hashlib.sha256(f"roboco {task_id}".encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


class Tracer:
    """Sends the spans of this process to the exporter, in the background. A forked process needs a new one."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._ids = _IdGenerator()
        self._provider = TracerProvider(id_generator=self._ids, resource=_resource())
        delay = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else EXPORT_DELAY_MS
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=delay))
        self._tracer = self._provider.get_tracer("roboco")

    def start_span(self, operation: Operation, task_id: str) -> "_Span":
        """Start a span for the work."""
        name = _OPERATIONS.get(operation.kind, operation.kind)
        facts: dict[str, AttributeValue | None] = {
            "gen_ai.operation.name": name if operation.kind in _OPERATIONS else None,
            "gen_ai.conversation.id": task_id,
            "gen_ai.provider.name": "openai" if operation.kind in ("turn", "model") else None,  # its protocol
            "gen_ai.request.model": operation.model or None,
            "gen_ai.tool.call.id": operation.call_id or None,
            "gen_ai.tool.type": "function" if operation.kind == "tool" else None,
            "roboco.step": operation.seq,
            "roboco.attempt": operation.attempt,
        }
        span = self._tracer.start_span(
            f"{name} {operation.model}" if operation.model else name,
            context=self._parent_context(operation, task_id),
            kind=SpanKind.CLIENT if operation.kind == "model" else SpanKind.INTERNAL,
            attributes={key: value for key, value in facts.items() if value is not None},
        )
        return _Span(span, operation.kind)

    def end_task(self, summary: TaskSummary) -> None:
        """Send the root span of the task's trace, from its submission to its end."""
        facts: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": summary.team,
            "gen_ai.conversation.id": summary.task_id,
            "gen_ai.usage.input_tokens": summary.tokens_in,
            "gen_ai.usage.output_tokens": summary.tokens_out,
            "roboco.status": str(summary.status),
            "roboco.steps": summary.steps,
            "roboco.cost": summary.cost,
        }
        with self._ids.fixed(*trace_ids(summary.task_id)):
            span = self._tracer.start_span(
                f"invoke_workflow {summary.team}",
                context=Context(),
                attributes=facts,
                start_time=_nanoseconds(summary.created_at.timestamp()),
            )
        if summary.status in (TaskStatus.FAILED, TaskStatus.GOALS_FAILED):
            _set_error(span, str(summary.status))
        span.end(_nanoseconds(summary.updated_at.timestamp()))

    def close(self) -> None:
        """Send the remaining spans. Those that the exporter does not take in time are dropped."""
        self._provider.force_flush(FLUSH_TIMEOUT_MS)

    def _parent_context(self, operation: Operation, task_id: str) -> Context:
        """Return the parent of a span: the turn for a model call, the root span for all other work."""
        if operation.kind == "model" and trace.get_current_span().get_span_context().is_valid:
            return trace.set_span_in_context(trace.get_current_span())
        trace_id, root = trace_ids(task_id)
        decision = self._provider.sampler.should_sample(None, trace_id, "invoke_workflow").decision
        sampled = decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        return trace.set_span_in_context(NonRecordingSpan(SpanContext(trace_id, root, True, flags)), Context())


class _Span:
    """A span. Unless it is a model call, it is the current span of its context, so other code can add children."""

    def __init__(self, span: trace.Span, kind: str) -> None:
        self._span = span
        self._kind = kind
        self._current: AbstractContextManager[Any] | None = None
        if kind != "model":
            self._current = trace.use_span(span, record_exception=False, set_status_on_exception=False)
            self._current.__enter__()

    def set_attributes(self, attributes: Mapping[str, str | int | float]) -> None:
        """Add attributes to the span."""
        for name, value in attributes.items():
            if name == "error":
                _set_error(self._span, str(value))
            elif name == "finish_reason":
                self._span.set_attribute("gen_ai.response.finish_reasons", [str(value)])
            elif name in _ATTRIBUTES:
                self._span.set_attribute(_ATTRIBUTES[name], value)
        if title := attributes.get(_NAME_ATTRIBUTES.get(self._kind, "")):
            self._span.update_name(f"{_OPERATIONS[self._kind]} {title}")

    def end(self, error: str = "") -> None:
        """End the span, with this type of error, if any."""
        if error:
            _set_error(self._span, error)
        self.discard()
        self._span.end()

    def discard(self) -> None:
        """Discard the span: a span that never ends is never sent."""
        if self._current is not None:
            self._current.__exit__(None, None, None)
            self._current = None


class _IdGenerator(RandomIdGenerator):
    """Generates random ids, or fixed ones within a `fixed` block."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def fixed(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Give spans of this thread these ids inside the block."""
        self._local.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._local.ids = None

    def generate_trace_id(self) -> int:
        """Return the fixed id, or a random one."""
        given: tuple[int, int] | None = getattr(self._local, "ids", None)
        return given[0] if given else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the fixed id, or a random one."""
        given: tuple[int, int] | None = getattr(self._local, "ids", None)
        return given[1] if given else super().generate_span_id()


def _resource() -> Resource:
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create(({} if named else {"service.name": "roboco"}) | {"process.pid": os.getpid()})


def _set_error(span: trace.Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
