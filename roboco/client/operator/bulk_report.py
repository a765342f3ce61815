"""bulk_report: what a bulk control reports: a count, the outcomes of a page, and the outcome of a task."""

from typing import Literal

from roboco.domain.schema import RecordModel


class BulkOutcome(RecordModel):
    """The outcome of a bulk control for one task."""

    task_id: str
    item_id: str = ""
    """The id of the item, for its receipt. A decision on calls and a fork have none."""
    outcome: Literal["accepted", "repeated", "ended", "failed"]
    """`repeated` if the task had accepted this control before, and `ended` if the task has ended meanwhile."""
    calls: list[str] = []
    """The ids of the calls that have the decision."""
    new_task_id: str = ""
    """The id of the new task of a fork."""
    code: str = ""
    """The kind of the error of a failure, for programs."""
    cause: str = ""
    """The error of a failure."""


class BulkPage(RecordModel):
    """The outcomes of a page of tasks. If a later page has the same task again, its last outcome counts."""

    bulk_id: str
    """The id of the bulk control: the same id sends the same items."""
    outcomes: list[BulkOutcome]
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may be empty and have a cursor."""
    complete: bool
    """False if tasks may be left: while the task index is rebuilt from the workspace, or after a thousand rounds."""


class CountedCalls(RecordModel):
    """The calls of one tool that a decision will reach."""

    tool: str
    effect: str
    """The effect of the tool: pure, idempotent, irreversible, or "client" for a tool that the client runs."""
    calls: int


class BulkCount(RecordModel):
    """The number of tasks that a bulk control will reach, as of now."""

    bulk_id: str
    matching: int
    """The tasks of this part of the count: of all tasks if it has no cursor, else there are at least as many."""
    tools: list[CountedCalls] = []
    """The calls of these tasks that a decision will reach, by tool."""
    start: str = ""
    """The cursor with which a run begins that reaches what was counted, and nothing that came later."""
    unreadable: int = 0
    """Further tasks, whose calls cannot be read."""
    cursor: str
    """The cursor of the next part, or "" after the last one. No run begins with it."""
    complete: bool
    """False while the task index is rebuilt from the workspace: until then tasks may be missing."""
