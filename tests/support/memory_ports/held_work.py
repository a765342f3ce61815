"""The switches in memory, and held work that is checked when a test calls `check`."""

from roboco.engine.held_work import HeldWork
from roboco.engine.switches import SwitchBoard
from roboco.ports.host import Host
from tests.support.memory_ports.server import MemoryServer


class MemorySwitchCache:
    """The copy of the switches that a server holds."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def read(self) -> str | None:
        """Return the switches, or None if the server was emptied."""
        with self._server as held:
            return None if held.switches is None else held.switches[1]

    def write(self, text: str, revision: int) -> None:
        """Store the switches, unless newer ones are stored."""
        with self._server as held:
            if held.switches is None or held.switches[0] <= revision:
                held.switches = (revision, text)


class MemoryHost(Host):
    """A worker that a test shuts down. It counts interruptions and kills."""

    def __init__(self) -> None:
        self.shutdown_due = False
        self.interrupts = 0
        self.kills = 0

    def is_shutdown_due(self) -> bool:
        """Return True once the test has set `shutdown_due`."""
        return self.shutdown_due

    def interrupt_call(self) -> None:
        """Count the interruption."""
        self.interrupts += 1

    def kill(self) -> None:
        """Count the kill."""
        self.kills += 1


class ManualHeldWork(HeldWork):
    """Held work without a thread."""

    def __init__(self, host: Host, switches: SwitchBoard) -> None:
        super().__init__(host, switches)

    def _ensure_running(self) -> None:
        """Start no thread."""
