"""bulk_report: the reports of a bulk control: a count, the outcomes of a page, and the outcome of a task."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, Self

from roboco.domain.schema import RecordModel


class BulkOutcome(RecordModel):
    """The outcome of a bulk control for one task."""

    task_id: str
    item_id: str = ""
    """The id of the item, for its receipt. A decision on calls, a fork and a retry have none."""
    outcome: Literal["accepted", "repeated", "ended", "failed"]
    """`repeated` if the task had accepted this control before, and `ended` if the task has ended meanwhile."""
    calls: list[str] = []
    """The ids of the calls that have the decision."""
    new_task_id: str = ""
    """The id of the new task of a fork or retry."""
    code: str = ""
    """The kind of the error of a failure, for programs."""
    cause: str = ""
    """The error of a failure."""


class BulkCounts(RecordModel):
    """The number of tasks by their outcome."""

    accepted: int
    """Tasks that have accepted the control; workers apply it. Of a decision, tasks with calls that have got it."""
    repeated: int
    """Tasks that had accepted this control before."""
    ended: int
    """Tasks that have ended meanwhile."""
    failed: int
    """Tasks whose outcome has a cause."""

    @classmethod
    def of(cls, outcomes: Iterable[BulkOutcome]) -> Self:
        """Return the counts of these outcomes."""
        found = Counter[str](one.outcome for one in outcomes)
        return cls.model_validate({name: found[name] for name in cls.model_fields})


class CountedCalls(RecordModel):
    """The calls of one tool that a decision will reach."""

    tool: str
    effect: str
    """The effect of the tool: pure, idempotent, irreversible, or "client" for a tool that the client runs."""
    calls: int


class BulkReport(RecordModel):
    """One page of a bulk control, or its count."""

    bulk_id: str
    """The id of the bulk control: the same id sends the same items."""
    matching: int | None = None
    """The number of tasks that it will reach, of a count. With a cursor there are at least as many."""
    tools: list[CountedCalls] = []
    """The calls that a decision will reach, by tool, of a count."""
    unreadable: int = 0
    """Further tasks, whose calls cannot be read, of a count."""
    start: str = ""
    """The cursor of a run that reaches the counted tasks and calls, and no later ones."""
    counts: BulkCounts
    outcomes: list[BulkOutcome]
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may be empty and have a cursor."""
    complete: bool
    """False if tasks may be left, as while the list of tasks is rebuilt from the workspace."""
