"""The dispatcher: messages that announce work to workers."""

from enum import StrEnum
from typing import Protocol

from roboco.domain.history.priority import Priority
from roboco.ports.leases import CallOrder, TurnOrder
from roboco.ports.task_store import Phase
from roboco.ports.tools import ListOrder


class AttemptEnd(StrEnum):
    """How an attempt at a turn or call has ended, if its worker cannot report that."""

    DONE = "done, and lost with its worker after that"
    FAILED = "failed, and lost with its worker after that; see roboco show"
    LOST = "lost with its worker"
    PASSED_OVER = "passed over: nobody wants it any more"


class Dispatcher(Protocol):
    """Sends the messages that announce work. A message may come late, twice or never."""

    def advance(self, task_id: str) -> None:
        """Have a coordinator make a pass over the task."""

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agents worker make the turn."""

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tools worker make the call, and end it after `timeout` seconds."""

    def list_tools(self, order: ListOrder) -> None:
        """Have a tools worker list the tools of an MCP server."""

    def ended(self, order: TurnOrder | CallOrder, who: str, end: AttemptEnd) -> None:
        """Show in displays such as Flower how an attempt has ended. `who` is its agent or tool.

        Nothing else depends on it: it may get lost, and it raises nothing.
        """

    def notify(self, task_id: str) -> None:
        """Have a coordinator deliver the task's notices."""

    def waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """Return the time, in Unix seconds, at which the oldest waiting message was sent: of turns, calls or `advance`.

        Only messages that workers take before one for this task count. None if none waits, or if it is not known.
        """

    def backlog(self, task_id: str) -> int:
        """Return the number of waiting messages that workers take before, or beside, those of a new task of this id."""
