"""A heartbeat that renews when a test calls `beat`."""

from roboco.engine.heartbeat import LeaseHeartbeat
from tests.support.memory_ports.leases import MemoryLeaseRenewals
from tests.support.memory_ports.renewals import ScriptedRenewals


class ManualHeartbeat(LeaseHeartbeat):
    """A heartbeat that renews all leases at each `beat`, in the test's thread."""

    def __init__(self, renewals: MemoryLeaseRenewals | ScriptedRenewals) -> None:
        super().__init__(renewals.renew, renewals.server_of, 3600.0)

    def _ensure_running(self) -> None:
        """Start no thread."""

    def beat(self) -> None:
        """Renew each lease once."""
        self._renew("", list(self._held))
