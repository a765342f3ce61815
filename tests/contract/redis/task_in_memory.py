"""A task on the ports in memory, which other tests rely on."""

from collections.abc import Iterable

from tests.contract.redis.task_under_test import LONG_LEASE, OPERATOR_LIMITS, RATE_WINDOW, SHORT_LEASE, TaskUnderTest
from tests.contract.samples import TASK
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.leases import MemoryLeaseRenewals, MemoryLeases
from tests.support.memory_ports.rates import MemoryRates
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.schedule import (
    MemoryDeadLetters,
    MemoryLogs,
    MemorySchedule,
)
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.task_store import MemoryTaskStore


class TaskInMemory(TaskUnderTest):
    """A task on the ports in memory, with a manual clock."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__()
        self._server = server = MemoryServer()
        self.clock = clock = clock or ManualClock()
        self.store = MemoryTaskStore(server, clock)
        self.leases = MemoryLeases(server, clock, LONG_LEASE)
        self.short_lease = MemoryLeases(server, clock, SHORT_LEASE)
        self.renewals = MemoryLeaseRenewals(server, clock, LONG_LEASE)
        self.schedule = MemorySchedule(server, clock)
        self.logs = MemoryLogs(server)
        self.dead_letters = MemoryDeadLetters(server)
        self.rates = MemoryRates(server, clock, LONG_LEASE, OPERATOR_LIMITS)
        self.short_window_rates = MemoryRates(server, clock, RATE_WINDOW, OPERATOR_LIMITS)

    def pass_time(self, seconds: float) -> None:
        self.clock.move(seconds)

    def registry(self, node_name: str, lifetime: float = LONG_LEASE) -> MemoryWorkerRegistry:
        return MemoryWorkerRegistry(self._server, self.clock, node_name, lifetime)

    def wipe(self) -> None:
        self._server.wipe()

    def chunks(self) -> Iterable[str]:
        task = self._server.held.tasks.get(TASK)
        return list(task.chunks) if task else []
