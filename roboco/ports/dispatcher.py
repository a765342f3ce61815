"""The dispatcher: messages that announce work to workers."""

from enum import StrEnum
from typing import Protocol

from roboco.domain.status import Priority
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment
from roboco.ports.snapshot import Phase


class AttemptStatus(StrEnum):
    """The end of an attempt at a turn or call whose worker cannot report it."""

    DONE = "done, and lost with its worker after that"
    FAILED = "failed, and lost with its worker after that; see roboco show"
    LOST = "lost with its worker"
    SUPERSEDED = "superseded: its result is no longer needed"


class Dispatcher(Protocol):
    """Sends the messages that announce work. A message may arrive late, twice or never."""

    def advance(self, task_id: str) -> None:
        """Send a message that has a coordinator make a pass over the task."""

    def turn(self, assignment: TurnAssignment, agent: str) -> None:
        """Send a message that has an agents worker make the turn."""

    def tool(self, assignment: ToolAssignment, name: str, timeout: float) -> None:
        """Send a message that has a tools worker run the call, and end it after `timeout` seconds."""

    def list_tools(self, request: ListingRequest) -> None:
        """Send a message that has a tools worker list the tools of an MCP server."""

    def report_attempt_end(self, assignment: TurnAssignment | ToolAssignment, name: str, status: AttemptStatus) -> None:
        """Report the end of an attempt to displays such as Flower. `name` is its agent or tool.

        Nothing else depends on it: the report may be lost. It raises nothing.
        """

    def notify(self, task_id: str) -> None:
        """Send a message that has a coordinator deliver the task's notifications."""

    def oldest_waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """Return the time, in Unix seconds, at which the oldest waiting message was sent: of turns, calls or `advance`.

        Only messages that workers take before one for this task count. Return None if none waits, or if it is not
        known.
        """

    def describe_queue(self, pool: str) -> str:
        """Return how many messages wait for the pool, with the remedy, or "" if none waits.

        Raise TransientError if that cannot be found out.
        """

    def fault(self) -> str:
        """Return why no messages can be sent now, with the remedy, or "". It raises nothing."""

    def backlog(self, task_id: str) -> int:
        """Return the number of queued messages that workers take before, or beside, those of a new task of this id."""
