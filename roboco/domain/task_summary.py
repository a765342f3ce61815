"""TaskSummary: what `task.json` says of a task. It can be computed again from the history."""

from datetime import datetime

from pydantic import ValidationError

from roboco.domain.schema import Recorded
from roboco.domain.status import TaskStatus
from roboco.domain.usage import Spent


class TaskSummary(Recorded):
    """A task at a glance; times are UTC. `agents` and `tools` say what each of them has used.

    `epoch` is the fence of the decision that it describes, and `generation` that of the logs at that time.
    """

    task_id: str
    team: str
    status: TaskStatus
    reason: str = ""
    steps: int = 0
    epoch: int = 0
    generation: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    agents: dict[str, Spent] = {}
    tools: dict[str, Spent] = {}
    created_at: datetime
    updated_at: datetime

    def follows(self, stored: "TaskSummary") -> bool:
        """Return True if this summary is newer than the stored one, which is not that of an ended task.

        An end is final when it is written: Redis may have lost the decision that the stored summary describes.
        """
        return not stored.status.ended and (self.status.ended or self._place > stored._place)

    @property
    def _place(self) -> tuple[int, str, int]:
        """The order of decisions. Within a generation Redis loses none; steps are never lost."""
        return self.steps, self.generation, self.epoch


def read_summary(data: bytes) -> TaskSummary | None:
    """Return the summary, or None if the bytes are none, as a disk that was full or a restore may leave them."""
    try:
        return TaskSummary.model_validate_json(data)
    except ValidationError:
        return None
