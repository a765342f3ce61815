"""Messages to workers, deliveries outside, signals and time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from roboco.domain.history.priority import Priority
from roboco.domain.notification import Notice, Notify
from roboco.ports.board import Phase
from roboco.ports.leases import CallOrder, TurnOrder
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


class Deliverer(Protocol):
    """Delivers notices."""

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Deliver the notice. It may have arrived even if this raises.

        UsageError if no attempt can succeed; TransientError if a later one may; Later if the receiver says when. This
        returns or raises within seconds.
        """


class Signals(Protocol):
    """Requests to end work. A signal may get lost; the lease then reports the request, later."""

    def listen(self, task_id: str, epoch: int, heard: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `heard`, from any thread, if the work of this epoch is requested to end before the block ends."""


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Return the time in Unix seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
