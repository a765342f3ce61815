"""The usage of days in memory."""

from roboco.domain.ids import tenant_of
from roboco.domain.usage import DayUsage
from tests.support.memory_ports.server import MemoryServer


class MemoryDayUsages:
    """Usage by task and day, with the caller that created the task."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def count(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task, unless a newer one is stored."""
        with self._server as held:
            stored = held.day_usages.get((task_id, used.day))
            if stored is None or stored[1] < steps:
                held.day_usages[task_id, used.day] = (by, steps, used)

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the day."""
        with self._server as held:
            known = [(tenant_of(task_id), one) for (task_id, at), one in held.day_usages.items() if at == day]
        used = [used for of, (creator, _, used) in known if of == tenant and by in (None, creator)]
        tokens, cost = sum(one.tokens for one in used), sum(one.cost_billionths for one in used)
        return DayUsage(day=day, tokens=tokens, cost_billionths=cost)
