"""WatchedTask and TaskClient: what a drill uses of a task and of the client. `Task` and `Orchestrator` have it all."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StreamItem
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team


class WaitingCalls(Protocol):
    """The calls for which a task waits."""

    def unapproved(self) -> list[ToolCall]: ...

    def unknown(self) -> list[ToolCall]: ...


class WatchedTask(Protocol):
    """A task as its user, its reader and an operator see it."""

    task_id: str

    @property
    def status(self) -> TaskStatus: ...

    def summary(self) -> TaskSummary: ...

    def is_at_rest(self) -> bool: ...

    def history(self) -> list[TaskStep]: ...

    def stream(self) -> Iterator[StreamItem]: ...

    def verify(self) -> int: ...

    def team(self) -> Team: ...

    def pending_actions(self) -> WaitingCalls: ...

    def send(self, message: str) -> object: ...

    def interrupt(self, message: str | None = None) -> object: ...

    def stop(self, reason: str = "") -> object: ...

    def approve(self, call_id: str) -> None: ...

    def resolve(self, call_id: str, happened: bool) -> None: ...


class TaskClient(Protocol):
    """A client without a tenant."""

    def run(self, team: Team, prompt: str, *, task_id: str, context: dict[str, Any]) -> WatchedTask: ...

    def stored_task(self, task_id: str) -> WatchedTask: ...

    def task_ids(self) -> Iterator[str]: ...

    def dead_letters(self) -> Sequence[object]: ...
