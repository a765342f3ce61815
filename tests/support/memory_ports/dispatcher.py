"""A dispatcher that queues its messages for a test to deliver."""

from collections import deque
from dataclasses import dataclass

from roboco.domain.status import Priority
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment
from roboco.ports.clock import Clock
from roboco.ports.dispatcher import AttemptStatus, Dispatcher
from roboco.ports.snapshot import Phase


@dataclass(frozen=True)
class AdvanceMessage:
    """Message to the coordinator: advance the task."""

    task_id: str


@dataclass(frozen=True)
class TurnMessage:
    """Message to an agents worker: run the turn."""

    assignment: TurnAssignment
    agent: str


@dataclass(frozen=True)
class ToolMessage:
    """Message to a tools worker: run the call."""

    assignment: ToolAssignment
    name: str
    timeout: float


@dataclass(frozen=True)
class NotifyMessage:
    """Message to the coordinator: deliver the task's notifications."""

    task_id: str


@dataclass(frozen=True)
class ListToolsMessage:
    """Message to a tools worker: list the tools of an MCP server."""

    request: ListingRequest


Message = AdvanceMessage | TurnMessage | ToolMessage | NotifyMessage | ListToolsMessage


class QueueDispatcher(Dispatcher):
    """Messages in order: `queue` holds those to deliver, `sent` all that were ever sent.

    `ends` holds the reported status of attempts by position, agent or tool, and attempt.
    """

    def __init__(self, clock: Clock) -> None:
        self.queue: deque[Message] = deque()
        self.sent: list[Message] = []
        self.ends: dict[tuple[int, str, int], AttemptStatus] = {}
        self._clock = clock
        self._sent_at: dict[int, float] = {}

    def advance(self, task_id: str) -> None:
        self._send(AdvanceMessage(task_id))

    def turn(self, assignment: TurnAssignment, agent: str) -> None:
        self._send(TurnMessage(assignment, agent))

    def tool(self, assignment: ToolAssignment, name: str, timeout: float) -> None:
        self._send(ToolMessage(assignment, name, timeout))

    def describe_queue(self, pool: str) -> str:
        return ""

    def fault(self) -> str:
        return ""

    def list_tools(self, request: ListingRequest) -> None:
        self._send(ListToolsMessage(request))

    def report_attempt_end(self, assignment: TurnAssignment | ToolAssignment, name: str, status: AttemptStatus) -> None:
        self.ends[(assignment.seq, name, assignment.attempt)] = status

    def notify(self, task_id: str) -> None:
        self._send(NotifyMessage(task_id))

    def _send(self, message: Message) -> None:
        self.queue.append(message)
        self.sent.append(message)
        self._sent_at[id(message)] = self._clock.now()

    def backlog(self, task_id: str) -> int:
        return len(self.queue)

    def oldest_waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        kind = {Phase.TURN: TurnMessage, Phase.TOOLS: ToolMessage}.get(phase, AdvanceMessage)
        return next((self._sent_at[id(message)] for message in self.queue if isinstance(message, kind)), None)
