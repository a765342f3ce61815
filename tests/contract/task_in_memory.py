"""A task on the adapters in memory, which other tests rely on."""

from collections.abc import Iterable

from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import Ticket
from tests.contract.a_task import LIMITS, LONG, SHORT, WINDOW, ATask
from tests.contract.samples import TASK
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.leases import MemoryCalls, MemoryTurns
from tests.support.memory_ports.rates import MemoryRates
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.schedule import (
    MemoryAttempts,
    MemoryDeadLetters,
    MemoryInbox,
    MemoryLogs,
    MemorySchedule,
)
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.task_store import MemoryTaskStore


class TaskInMemory(ATask):
    """Its time passes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._server = server = MemoryServer()
        self.clock = clock = ManualClock()
        self.board = MemoryTaskStore(server, clock)
        self.turns = MemoryTurns(server, clock, LONG)
        self.calls = MemoryCalls(server, clock, LONG)
        self.brief_turns = MemoryTurns(server, clock, SHORT)
        self.brief_calls = MemoryCalls(server, clock, SHORT)
        self.schedule = MemorySchedule(server, clock)
        self.inbox = MemoryInbox(server, clock)
        self.logs = MemoryLogs(server)
        self.attempts = MemoryAttempts(server, clock, LONG)
        self.brief_attempts = MemoryAttempts(server, clock, SHORT)
        self.dead = MemoryDeadLetters(server)
        self.rates: MemoryRates = MemoryRates(server, clock, LONG, LIMITS)
        self.brief_rates = MemoryRates(server, clock, WINDOW, LIMITS)

    def outlive(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.move(seconds)

    def registry(self, own: str, live: float = LONG) -> MemoryWorkerRegistry:
        """The registry of workers as the worker of this name has it."""
        return MemoryWorkerRegistry(self._server, self.clock, own, live)

    def wipe(self) -> None:
        """Empty the server."""
        self._server.wipe()

    def chunks(self) -> Iterable[str]:
        """The messages of the content log."""
        task = self._server.held.tasks.get(TASK)
        return list(task.chunks) if task else []

    def tickets(self, profile: ModelProfile, ticket: Ticket) -> set[str]:
        """The tickets of requests that the server remembers for the limits of this one."""
        return self.rates.tickets(profile, ticket)
