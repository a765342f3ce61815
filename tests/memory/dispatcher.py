"""A dispatcher that queues its messages for a test to deliver."""

from collections import deque
from dataclasses import dataclass

from roboco.ports import CallOrder, TurnOrder


@dataclass(frozen=True)
class Advance:
    """Have the coordinator look at the task."""

    task_id: str


@dataclass(frozen=True)
class Turn:
    """Have an agent worker make the turn."""

    order: TurnOrder
    agent: str


@dataclass(frozen=True)
class Tool:
    """Have a tool worker make the call."""

    order: CallOrder
    name: str
    timeout: float


Message = Advance | Turn | Tool


class QueueDispatcher:
    """Keeps messages in order: `queue` are those to deliver, `sent` all that ever were."""

    def __init__(self) -> None:
        self.queue: deque[Message] = deque()
        self.sent: list[Message] = []

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""
        self._send(Advance(task_id))

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agent worker make the turn."""
        self._send(Turn(order, agent))

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tool worker make the call."""
        self._send(Tool(order, name, timeout))

    def _send(self, message: Message) -> None:
        self.queue.append(message)
        self.sent.append(message)
