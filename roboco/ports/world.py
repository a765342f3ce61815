"""The rest of the world: messages and time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from roboco.domain.notify import Notice, Notify
from roboco.domain.priority import Priority
from roboco.ports.board import Phase
from roboco.ports.leases import CallOrder, TurnOrder
from roboco.ports.tools import ListOrder


class AttemptEnd(StrEnum):
    """How an attempt at a turn or call has ended whose worker cannot say it."""

    DONE = "done, and lost with its worker after that"
    LOST = "lost with its worker"
    PASSED_OVER = "passed over: nobody wants it any more"


class Dispatcher(Protocol):
    """Sends the messages that announce work. A message may come late, twice or never."""

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agent worker make the turn."""

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tool worker make the call, and end it after `timeout` seconds."""

    def list_tools(self, order: ListOrder) -> None:
        """Have a tool worker list the tools of an MCP server."""

    def ended(self, order: TurnOrder | CallOrder, who: str, end: AttemptEnd) -> None:
        """Show those who watch the workers how an attempt has ended; `who` is its agent or tool.

        Only a display depends on it: it may get lost, and raises nothing.
        """

    def notify(self, task_id: str) -> None:
        """Have the coordinator deliver what is to be told of the task."""

    def waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """When the oldest message that no worker has taken was sent, in Unix seconds: of turns, calls or `advance`.

        Only those count that are taken before one for this task is. None if none waits, or if the broker cannot tell.
        """

    def backlog(self, task_id: str) -> int:
        """How many messages wait for workers that are taken before those of a new task of this id, or beside them."""


class Deliverer(Protocol):
    """Tells those outside what has become of a task."""

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Hand the notice over; it may have arrived although this raises.

        UsageError if that cannot be, however often it is tried; TransientError if it may be later, and Later if it is
        said when. It returns or raises within seconds.
        """


class Signals(Protocol):
    """Hears when somebody wants work to end. A signal may get lost: leases tell the same, later."""

    def listen(self, task_id: str, epoch: int, heard: Callable[[], None]) -> AbstractContextManager[None]:
        """Until the block ends, call `heard` when the work of this epoch is to end: from any thread, and soon over."""


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Unix seconds, UTC."""

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
