"""Telemetry of the work for operators: metrics, context of log lines, and traces."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal

from roboco.domain.task_summary import TaskSummary


@dataclass(frozen=True)
class MetricSpec:
    """A metric: its type and its labels."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    """A counter grows. A gauge rises and falls within one process. A histogram records each value, in seconds."""
    labels: tuple[str, ...] = ()
    """The names of its labels, in order."""
    bounds: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets."""
    initial_labels: tuple[tuple[str, ...], ...] = ()
    """Values of the labels that exist from the start, with the value 0."""


_SHORT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LONG_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_WORK_LABELS: tuple[tuple[str, ...], ...] = (("turn",), ("tool",))

TURN_SECONDS: Final = MetricSpec(
    "roboco_turn_seconds", "A turn, from its claim until its step is stored.", "histogram", ("model",), _LONG_BUCKETS
)
FIRST_TOKEN_SECONDS: Final = MetricSpec(
    "roboco_first_token_seconds",
    "From the request to the first output of the model.",
    "histogram",
    ("model",),
    _LONG_BUCKETS,
)
TOKENS: Final = MetricSpec("roboco_tokens_total", "Tokens that turns have used.", "counter", ("direction", "model"))
COST: Final = MetricSpec(
    "roboco_cost_total", "The cost of turns, by the prices of their profiles.", "counter", ("model",)
)
QUEUE_WAIT_SECONDS: Final = MetricSpec(
    "roboco_queue_wait_seconds", "From the sending of a message to its start.", "histogram", ("queue",), _SHORT_BUCKETS
)
LEASE_EXPIRATIONS: Final = MetricSpec(
    "roboco_lease_expirations_total",
    "Leases that expired during their work.",
    "counter",
    ("kind",),
    initial_labels=_WORK_LABELS,
)
ATTEMPT_RESTARTS: Final = MetricSpec(
    "roboco_attempt_restarts_total",
    "Attempts that were voided and restarted.",
    "counter",
    ("kind",),
    initial_labels=_WORK_LABELS,
)
INTERRUPT_LATENCY_SECONDS: Final = MetricSpec(
    "roboco_interrupt_latency_seconds",
    "From the request to interrupt or stop a turn until the connection to its model was closed.",
    "histogram",
    (),
    _SHORT_BUCKETS,
)
STREAM_LAG_SECONDS: Final = MetricSpec(
    "roboco_stream_lag_seconds",
    "From the arrival of a model's text until Redis has taken it.",
    "histogram",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
OPEN_STREAMS: Final = MetricSpec("roboco_open_streams", "Model calls that run now.", "gauge")
TOOL_SECONDS: Final = MetricSpec(
    "roboco_tool_seconds",
    "A tool call, with the storing of its result.",
    "histogram",
    ("tool", "outcome"),
    _SHORT_BUCKETS,
)
TASKS: Final = MetricSpec("roboco_tasks_total", "Tasks that have ended, by their final status.", "counter", ("status",))
REFUSED: Final = MetricSpec(
    "roboco_refused_messages_total",
    "Messages that workers refused, by their Celery task.",
    "counter",
    ("message",),
    initial_labels=(("roboco.submit",),),
)
METRICS: Final = (
    TURN_SECONDS,
    FIRST_TOKEN_SECONDS,
    TOKENS,
    COST,
    QUEUE_WAIT_SECONDS,
    LEASE_EXPIRATIONS,
    ATTEMPT_RESTARTS,
    INTERRUPT_LATENCY_SECONDS,
    STREAM_LAG_SECONDS,
    OPEN_STREAMS,
    TOOL_SECONDS,
    TASKS,
    REFUSED,
)


@dataclass(frozen=True)
class Operation:
    """The work that is done for a task. A `model` call is part of a turn, which names the task."""

    kind: Literal["submit", "advance", "turn", "model", "tool"]
    task_id: str = ""
    seq: int | None = None
    attempt: int | None = None
    call_id: str = ""
    model: str = ""


class OperationSpan:
    """A span of running work. This one records nothing."""

    def annotate(self, **facts: str | int | float) -> None:
        """Add facts to the span: `agent`, `tool`, `model`, `tokens_in`, `tokens_out`, `finish_reason`, `error`.

        Never add texts of users or models.
        """

    def discard(self) -> None:
        """Discard the span, because the work was not for this worker."""


_NO_SPAN: Final = nullcontext(OperationSpan())


class Telemetry:
    """Reports to operators. No method waits, and none raises: a report that fails is dropped. These report nothing."""

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""

    def operation(self, operation: Operation) -> AbstractContextManager[OperationSpan]:
        """Return a context manager for the duration of the work.

        Log lines name the work, and it is a span of the trace.
        """
        return _NO_SPAN

    def task_ended(self, summary: TaskSummary) -> None:
        """Record that the task has ended. A repetition has no effect."""
