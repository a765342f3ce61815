"""A dispatcher that queues its messages for a test to deliver."""

from collections import deque
from dataclasses import dataclass

from roboco.domain.history.priority import Priority
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment
from roboco.ports.clock import Clock
from roboco.ports.dispatcher import AttemptStatus
from roboco.ports.task_store import Phase


@dataclass(frozen=True)
class Advance:
    """Have the coordinator look at the task."""

    task_id: str


@dataclass(frozen=True)
class Turn:
    """Have an agent worker make the turn."""

    order: TurnAssignment
    agent: str


@dataclass(frozen=True)
class Tool:
    """Have a tool worker make the call."""

    order: ToolAssignment
    name: str
    timeout: float


@dataclass(frozen=True)
class Notify:
    """Have the coordinator deliver what is to be told."""

    task_id: str


@dataclass(frozen=True)
class ListTools:
    """Have a tool worker list the tools of an MCP server."""

    order: ListingRequest


Message = Advance | Turn | Tool | Notify | ListTools


class QueueDispatcher:
    """Keeps messages in order: `queue` are those to deliver, `sent` all that ever were.

    `ends` are those of attempts that were shown, by position, who was at it, and attempt.
    """

    def __init__(self, clock: Clock) -> None:
        self.queue: deque[Message] = deque()
        self.sent: list[Message] = []
        self.ends: dict[tuple[int, str, int], AttemptStatus] = {}
        self._clock = clock
        self._sent_at: dict[int, float] = {}

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""
        self._send(Advance(task_id))

    def turn(self, assignment: TurnAssignment, agent: str) -> None:
        """Have an agent worker make the turn."""
        self._send(Turn(assignment, agent))

    def tool(self, assignment: ToolAssignment, name: str, timeout: float) -> None:
        """Have a tool worker make the call."""
        self._send(Tool(assignment, name, timeout))

    def list_tools(self, request: ListingRequest) -> None:
        """Have a tool worker list the tools of an MCP server."""
        self._send(ListTools(request))

    def report_attempt_end(self, assignment: TurnAssignment | ToolAssignment, name: str, status: AttemptStatus) -> None:
        """Show those who watch the workers how an attempt has ended; `who` is its agent or tool."""
        self.ends[(assignment.seq, name, assignment.attempt)] = status

    def notify(self, task_id: str) -> None:
        """Have the coordinator deliver what is to be told of the task."""
        self._send(Notify(task_id))

    def _send(self, message: Message) -> None:
        self.queue.append(message)
        self.sent.append(message)
        self._sent_at[id(message)] = self._clock.now()

    def backlog(self, task_id: str) -> int:
        """How many messages wait."""
        return len(self.queue)

    def oldest_waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """When the oldest message of the kind was sent that is still in the queue; None if none is."""
        kind = {Phase.TURN: Turn, Phase.TOOLS: Tool}.get(phase, Advance)
        return next((self._sent_at[id(message)] for message in self.queue if isinstance(message, kind)), None)
