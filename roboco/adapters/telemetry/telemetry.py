"""Observed: the telemetry of a process, of the parts that were asked for: metrics, names in log lines, and traces."""

from contextvars import Token
from types import TracebackType
from typing import Protocol

from roboco.adapters.telemetry.log_context import NAMED, Named, named
from roboco.domain.task_summary import TaskSummary
from roboco.ports import Doing, Figure, Work


class Figures(Protocol):
    """Where figures go."""

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or note a value of a histogram."""


class Span(Protocol):
    """A piece of a trace that is not over."""

    def tell(self, facts: dict[str, str | int | float]) -> None:
        """Facts that came to light."""

    def end(self, error: str = "") -> None:
        """It is over, with this kind of error."""

    def drop(self) -> None:
        """It was nothing."""


class Spans(Protocol):
    """Traces: one for each task."""

    def begin(self, work: Work, task_id: str) -> Span:
        """The work begins; what other code begins in this context is part of it, unless it is a model's call."""

    def ended(self, summary: TaskSummary) -> None:
        """The task has ended."""

    def close(self) -> None:
        """Send what was not sent."""


class Observed:
    """Each part may be missing."""

    def __init__(self, figures: Figures | None, spans: Spans | None) -> None:
        self._figures = figures
        self._spans = spans

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or note a value of a histogram."""
        if self._figures is not None:
            self._figures.note(figure, value, *labels)

    def work(self, work: Work) -> "_Doing":
        """Until the block ends, this work is being done."""
        return _Doing(work, self._spans)

    def ended(self, summary: TaskSummary) -> None:
        """The task has ended."""
        if self._spans is not None:
            self._spans.ended(summary)

    def close(self) -> None:
        """Send what was not sent."""
        if self._spans is not None:
            self._spans.close()


class _Doing:
    def __init__(self, work: Work, spans: Spans | None) -> None:
        self._work = work
        self._spans = spans
        self._named: Named = {}
        self._token: Token[Named | None] | None = None
        self._span: Span | None = None

    def __enter__(self) -> Doing:
        self._named = (NAMED.get() or {}) | named(vars(self._work))
        if self._work.kind != "model":  # that ends in any thread, and nothing is done within it
            self._token = NAMED.set(self._named)
        if self._spans is not None:
            self._span = self._spans.begin(self._work, str(self._named.get("task_id", "")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            self._span.end("" if kind is None else kind.__name__)
        if self._token is not None:
            NAMED.reset(self._token)

    def tell(self, **facts: str | int | float) -> None:
        """Facts that came to light."""
        self._named.update(named(dict(facts)))
        if self._span is not None:
            self._span.tell(facts)

    def void(self) -> None:
        """It was not for this worker to do."""
        if self._span is not None:
            self._span.drop()
            self._span = None
