"""RecordedTask: a task as its workspace has recorded it, to explain it or to decide it again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from roboco.domain.decision.router import Router, route
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team

TAIL_LENGTH: Final = 64
"""The number of the newest steps that `decide` sees, as a coordinator loads them."""


@dataclass(frozen=True)
class RecordedTask:
    """A recorded task: its team, its steps and its status."""

    team: Team
    steps: Sequence[TaskStep]
    status: TaskStatus
    reason: str
    started_at: datetime
    """The time at which it was submitted or forked."""
    first: int = 1
    """The position of its first own step. The steps before it belong to another task."""
    sub_task: bool = False
    """True for a sub-task, which has no user."""
    router: Router = route
    state: TaskState | None = None
    """The state after its steps, if it is known."""

    @property
    def first_decided(self) -> int:
        """Return the position of the first step that a decision of this task led to."""
        return max(self.first, 1 + sum(step.is_imported for step in self.steps))
