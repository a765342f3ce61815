"""The statuses of a task, as its followers see them, and its priority."""

from enum import StrEnum
from typing import Literal

Priority = Literal["high", "normal", "low"]
"""Workers take work of high priority before normal, and normal before low. Running work is not interrupted."""


class TaskStatus(StrEnum):
    """The status of a task."""

    QUEUED = "queued"
    RUNNING = "running"
    USER_TURN = "user_turn"
    CLIENT_TOOL_TURN = "client_tool_turn"
    APPROVAL = "approval"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GOALS_FAILED = "goals_failed"

    @property
    def ended(self) -> bool:
        """Return True if nothing more happens to the task."""
        return self in _ENDED

    @property
    def waiting(self) -> bool:
        """Return True if the task occupies no worker until an inbox item arrives."""
        return self in _WAITING


_ENDED = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.GOALS_FAILED})
_WAITING = frozenset({TaskStatus.USER_TURN, TaskStatus.CLIENT_TOOL_TURN, TaskStatus.APPROVAL, TaskStatus.PAUSED})
