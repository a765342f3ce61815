"""Traces: the spans of a task form one trace, whichever process records them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.errors import UsageError
from roboco.ports.telemetry import Operation
from roboco.telemetry.telemetry import ProcessTelemetry
from roboco.telemetry.tracer import Tracer, trace_ids
from roboco.telemetry.tracing_setup import open_tracer, tracing_enabled

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


class TracedProcess:
    """A process that records spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._tracer = Tracer(self._exporter)
        self.telemetry = ProcessTelemetry(None, self._tracer)

    def spans(self) -> dict[str, ReadableSpan]:
        self._tracer.close()
        return {span.name: span for span in self._exporter.get_finished_spans()}


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def summary(status: TaskStatus = TaskStatus.COMPLETED) -> TaskSummary:
    return TaskSummary(task_id="task_1", team="desk", status=status, steps=4, created_at=NOW, updated_at=NOW)


def test_spans_of_two_processes_form_one_trace() -> None:
    one, other = TracedProcess(), TracedProcess()
    with one.telemetry.operation(Operation("turn", "task_1", 1, 1)) as turn:
        turn.annotate(agent="writer", model="small")
        with one.telemetry.operation(Operation("model", model="small")) as call:
            call.annotate(tokens_in=3, tokens_out=4, finish_reason="stop")
        turn.annotate(tokens_in=3, tokens_out=4)
    with other.telemetry.operation(Operation("tool", "task_1", 1, 1, "tc_1")) as tool:
        tool.annotate(agent="writer", tool="search", error="tool_error")
    other.telemetry.task_ended(summary())
    spans = one.spans() | other.spans()
    assert set(spans) == {"invoke_agent writer", "chat small", "execute_tool search", "invoke_workflow desk"}
    trace_id, root = trace_ids("task_1")
    assert {span.context.trace_id for span in spans.values()} == {trace_id}
    parents = {name: span.parent.span_id if span.parent else None for name, span in spans.items()}
    turn_id = spans["invoke_agent writer"].context.span_id
    assert parents == {
        "invoke_agent writer": root,
        "chat small": turn_id,
        "execute_tool search": root,
        "invoke_workflow desk": None,
    }
    assert spans["invoke_workflow desk"].context.span_id == root
    facts = attributes_of(spans["chat small"])
    assert (facts["gen_ai.usage.input_tokens"], facts["gen_ai.response.finish_reasons"]) == (3, ("stop",))
    assert attributes_of(spans["execute_tool search"])["gen_ai.tool.call.id"] == "tc_1"
    assert attributes_of(spans["execute_tool search"])["error.type"] == "tool_error"
    assert not spans["execute_tool search"].status.is_ok


def test_a_discarded_operation_leaves_no_span_and_no_context() -> None:
    process = TracedProcess()
    with process.telemetry.operation(Operation("turn", "task_1", 1, 1)) as turn:
        turn.discard()
        assert not trace.get_current_span().get_span_context().is_valid
    assert not process.spans()


def test_only_the_type_of_an_exception_is_recorded() -> None:
    process = TracedProcess()
    with pytest.raises(ValueError, match="secret"), process.telemetry.operation(Operation("advance", "task_1")):
        raise ValueError("a secret text")
    span = process.spans()["advance"]
    assert attributes_of(span)["error.type"] == "ValueError"
    assert "secret" not in span.to_json()


def test_all_spans_of_a_task_are_sampled_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    process = TracedProcess()
    ids = [f"task_{number}" for number in range(60)]
    for task_id in ids:
        with process.telemetry.operation(Operation("advance", task_id)):
            pass
        process.telemetry.task_ended(summary().model_copy(update={"task_id": task_id}))
    process.spans()
    by_task: dict[Any, int] = {}
    for span in process._exporter.get_finished_spans():
        task_id = attributes_of(span)["gen_ai.conversation.id"]
        by_task[task_id] = by_task.get(task_id, 0) + 1
    assert set(by_task.values()) == {2}
    assert 5 < len(by_task) < 55


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_tracing_is_enabled_by_the_environment(environment: dict[str, str], wanted: bool) -> None:
    assert tracing_enabled(environment) is wanted


def test_a_missing_exporter_is_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"'otlp_proto_grpc'.*otlp_proto_http.*OTEL_EXPORTER_OTLP_PROTOCOL"):
        open_tracer({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert open_tracer({}) is None
