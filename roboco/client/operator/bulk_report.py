"""bulk_report: what a bulk control reports: a count, the outcomes of a page, and the outcome of a task."""

from typing import Literal

from roboco.domain.schema import RecordModel


class BulkOutcome(RecordModel):
    """The outcome of a bulk control for one task."""

    task_id: str
    item_id: str
    """The id of the item, for its receipt."""
    outcome: Literal["accepted", "repeated", "ended", "failed"]
    """`repeated` if the task had accepted this item before, and `ended` if the task has ended meanwhile."""
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


class BulkCount(RecordModel):
    """The number of tasks that a bulk control will reach, as of now."""

    bulk_id: str
    matching: int
    """The tasks of this part of the count: of all tasks if it has no cursor, else there are at least as many."""
    cursor: str
    """The cursor of the next part, or "" after the last one. No run begins with it."""
    complete: bool
    """False while the task index is rebuilt from the workspace: until then tasks may be missing."""
