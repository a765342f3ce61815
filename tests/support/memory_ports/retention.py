"""The progress of the retention's scan, in memory."""

from tests.support.memory_ports.task_index import MemoryIndexProgress


class MemoryRetentionProgress(MemoryIndexProgress):
    """The progress of the scan."""

    progress, holder = "retention_scan", "retention_lock"

    def now(self) -> float:
        """Return the time of the server."""
        return self._clock.now()
