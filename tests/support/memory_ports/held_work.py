"""Held work that is checked when a test calls `check`."""

from roboco.engine.held_work import HeldWork
from roboco.engine.switches import SwitchBoard
from roboco.ports.host import Host


class MemoryHost(Host):
    """A worker that a test shuts down. It counts interruptions and kills."""

    def __init__(self) -> None:
        self.shutdown_due = False
        self.interrupts = 0
        self.kills = 0

    def is_shutdown_due(self) -> bool:
        return self.shutdown_due

    def interrupt_call(self) -> None:
        self.interrupts += 1

    def kill(self) -> None:
        self.kills += 1


class ManualHeldWork(HeldWork):
    """Held work without a thread."""

    def __init__(self, host: Host, switches: SwitchBoard) -> None:
        super().__init__(host, switches)

    def _ensure_running(self) -> None:
        """Start no thread."""
