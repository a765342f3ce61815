"""The telemetry of a process: metrics, traces, and the log context. Each of the first two may be off."""

from contextvars import Token
from types import TracebackType
from typing import Protocol

from roboco.adapters.telemetry.log_context import NAMED, Named, named
from roboco.domain.task_summary import TaskSummary
from roboco.ports import Doing, Figure, Work


class Figures(Protocol):
    """A recorder of metrics."""

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""


class Span(Protocol):
    """An open span of a trace."""

    def tell(self, facts: dict[str, str | int | float]) -> None:
        """Add attributes to the span."""

    def end(self, error: str = "") -> None:
        """End the span, with this type of error, if any."""

    def drop(self) -> None:
        """Discard the span: it is not sent."""


class Spans(Protocol):
    """The spans of this process. All spans of a task belong to one trace."""

    def begin(self, work: Work, task_id: str) -> Span:
        """Start a span. Later spans of this context become its children, unless the work is a model call."""

    def ended(self, summary: TaskSummary) -> None:
        """Send the root span of the ended task."""

    def close(self) -> None:
        """Send the remaining spans."""


class Observed:
    """The telemetry of a process. Metrics, traces, or both may be off."""

    def __init__(self, figures: Figures | None, spans: Spans | None) -> None:
        self._figures = figures
        self._spans = spans

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""
        if self._figures is not None:
            self._figures.note(figure, value, *labels)

    def work(self, work: Work) -> "_Doing":
        """Return a context manager: until its block ends, log lines and spans belong to this work."""
        return _Doing(work, self._spans)

    def ended(self, summary: TaskSummary) -> None:
        """Send the root span of the ended task."""
        if self._spans is not None:
            self._spans.ended(summary)

    def close(self) -> None:
        """Send the remaining spans."""
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
        if self._work.kind != "model":  # a model call may end in any thread, and contains no other work
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
        """Add attributes to the span."""
        self._named.update(named(dict(facts)))
        if self._span is not None:
            self._span.tell(facts)

    def void(self) -> None:
        """Discard the span, because this work belongs to another worker."""
        if self._span is not None:
            self._span.drop()
            self._span = None
