"""Telemetry: what operators are told of the work: figures, what log lines name, and traces."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from roboco.domain.task_summary import TaskSummary


@dataclass(frozen=True)
class Figure:
    """Something that is counted or measured, and the names of its labels, in their order.

    A counter grows, a gauge goes up and down again in one process, of a histogram each value is noted: seconds, with
    these upper `bounds`. `known` are values of the labels that are there from the beginning, as zeros.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()


_SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LONG = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOTH: tuple[tuple[str, ...], ...] = (("turn",), ("tool",))

TURN_SECONDS: Final = Figure(
    "roboco_turn_seconds", "A turn, from its claim until its step is stored.", "histogram", ("model",), _LONG
)
FIRST_TOKEN_SECONDS: Final = Figure(
    "roboco_first_token_seconds", "From the request until the model says something.", "histogram", ("model",), _LONG
)
TOKENS: Final = Figure("roboco_tokens_total", "Tokens that turns have used.", "counter", ("direction", "model"))
COST: Final = Figure("roboco_cost_total", "What turns have cost, as the prices of profiles say.", "counter", ("model",))
QUEUE_WAIT_SECONDS: Final = Figure(
    "roboco_queue_wait_seconds", "From the sending of a message until a worker begins.", "histogram", ("queue",), _SHORT
)
LEASE_LOSSES: Final = Figure(
    "roboco_lease_expirations_total", "Leases that ended before their work.", "counter", ("kind",), known=_BOTH
)
RESTARTS: Final = Figure(
    "roboco_attempt_restarts_total", "Attempts that were voided and made anew.", "counter", ("kind",), known=_BOTH
)
STOP_SECONDS: Final = Figure(
    "roboco_interrupt_latency_seconds",
    "From the request to interrupt or stop a turn until the connection to its model was closed.",
    "histogram",
    (),
    _SHORT,
)
STREAM_LAG_SECONDS: Final = Figure(
    "roboco_stream_lag_seconds",
    "From the arrival of a model's text until Redis has taken it.",
    "histogram",
    (),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
OPEN_STREAMS: Final = Figure("roboco_open_streams", "Calls of models that run now.", "gauge")
TOOL_SECONDS: Final = Figure(
    "roboco_tool_seconds", "A tool call, with the storing of what it did.", "histogram", ("tool", "outcome"), _SHORT
)
TASKS: Final = Figure("roboco_tasks_total", "Tasks that have ended, by their final status.", "counter", ("status",))
REFUSED: Final = Figure(
    "roboco_refused_messages_total",
    "Messages that workers refused, by their Celery task.",
    "counter",
    ("message",),
    known=(("roboco.submit",),),
)
FIGURES: Final = (
    TURN_SECONDS,
    FIRST_TOKEN_SECONDS,
    TOKENS,
    COST,
    QUEUE_WAIT_SECONDS,
    LEASE_LOSSES,
    RESTARTS,
    STOP_SECONDS,
    STREAM_LAG_SECONDS,
    OPEN_STREAMS,
    TOOL_SECONDS,
    TASKS,
    REFUSED,
)


@dataclass(frozen=True)
class Work:
    """What is being done for a task: a `model` call is part of a turn, which says for which task it is."""

    kind: Literal["submit", "advance", "turn", "model", "tool"]
    task_id: str = ""
    seq: int | None = None
    attempt: int | None = None
    call_id: str = ""
    model: str = ""


class Doing(Protocol):
    """Work that is being done."""

    def tell(self, **facts: str | int | float) -> None:
        """Facts that came to light: `agent`, `tool`, `model`, `tokens_in`, `tokens_out`, `finish_reason`, `error`.

        Never what anybody wrote or said.
        """

    def void(self) -> None:
        """It was not for this worker to do: no trace of it is kept."""


class Telemetry(Protocol):
    """What operators are told. No method waits, and none raises: what cannot be told is left out."""

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or note a value of a histogram."""

    def work(self, work: Work) -> AbstractContextManager[Doing]:
        """Until the block ends, this work is being done: log lines name it, and it is part of the task's trace."""

    def ended(self, summary: TaskSummary) -> None:
        """The task has ended. Twice is once."""


class _Nothing:
    """Nobody is told what is being done."""

    def tell(self, **facts: str | int | float) -> None:
        """Nobody wants to know."""

    def void(self) -> None:
        """There is nothing to be left out."""


class NoTelemetry:
    """Nobody is told anything."""

    def __init__(self) -> None:
        self._nothing: AbstractContextManager[Doing] = nullcontext(_Nothing())

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Nobody wants to know."""

    def work(self, work: Work) -> AbstractContextManager[Doing]:
        """Nobody wants to know."""
        return self._nothing

    def ended(self, summary: TaskSummary) -> None:
        """Nobody wants to know."""
