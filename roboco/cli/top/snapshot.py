"""TopSnapshot: tasks, workers, queues and rates at one moment."""

from dataclasses import asdict, dataclass
from typing import Any

from roboco.client.operator.operations import QueueReport, WorkerReport
from roboco.domain.rate_report import RateReport
from roboco.redis.monitor import LiveTask


@dataclass(frozen=True)
class TaskRow:
    """A task as it is shown."""

    task: LiveTask
    team: str
    """The name of its team; "" until the team is read."""
    rate: float | None
    """Output tokens a second since the last picture, or None in the first one."""


@dataclass(frozen=True)
class TopSnapshot:
    """The figures that `roboco top` shows. If a server does not answer, they are those of the last picture."""

    at: float
    open_tasks: int | None = None
    """None until Redis has answered."""
    dead_letters: int = 0
    tasks: tuple[TaskRow, ...] = ()
    workers: tuple[WorkerReport, ...] = ()
    queues: tuple[QueueReport, ...] = ()
    rates: tuple[RateReport, ...] = ()
    errors: tuple[str, ...] = ()
    """The servers that did not answer."""

    @property
    def streams(self) -> int:
        """The number of connections that follow the text of these tasks."""
        return sum(row.task.followers for row in self.tasks)

    def consumers(self, queue: str) -> int:
        """Return the number of live workers that consume the queue."""
        pool = queue.rpartition(".")[2]
        return sum(1 for one in self.workers if pool in one.pools and one.alive and not one.draining)

    def record(self) -> dict[str, Any]:
        """Return the picture as JSON."""
        return {
            "time": self.at,
            "open_tasks": self.open_tasks,
            "dead_letters": self.dead_letters,
            "streams": self.streams,
            "tasks": [asdict(row.task) | {"team": row.team, "rate": row.rate} for row in self.tasks],
            "workers": [one.model_dump(mode="json") for one in self.workers],
            "queues": [one.model_dump() | {"workers": self.consumers(one.name)} for one in self.queues],
            "rates": [one.model_dump() for one in self.rates],
            "errors": list(self.errors),
        }
