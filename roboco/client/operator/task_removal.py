"""RemovalPage: the tasks of a page that are erased, or that the retention removes."""

from typing import Final, Literal

from roboco.domain.schema import RecordModel

FIRST_WAIT: Final = 0.1
MAX_WAIT: Final = 2.0
"""Seconds between two reads of a receipt that is not finished. They begin with FIRST_WAIT and double."""
DEFAULT_RATE: Final = 5.0
"""Tasks a second whose erasure begins."""
MAX_CAUSE_CHARS: Final = 500


class RemovalOutcome(RecordModel):
    """A task that meets the conditions, and the effect on it."""

    task_id: str
    outcome: Literal["matched", "accepted", "erased", "refused"]
    """`matched` in a preview, `erased` if the task has a finished receipt, and `refused` for the cause."""
    cause: str = ""
    """The error of a refusal, or in a preview of the retention, the rule that is due."""


class RemovalPage(RecordModel):
    """The tasks of a page of the workspace that meet the conditions."""

    tasks: list[RemovalOutcome]
    tasks_read: int
    """Tasks that were read for this page."""
    cursor: str
    """The cursor of the next page, or "" after the last one. A page may have no tasks and a cursor."""
