"""Archives, and the progress of the retention's scan, in memory."""

from dataclasses import dataclass, field
from typing import BinaryIO

from roboco.ports.clock import Clock
from roboco.ports.retention_progress import RetentionScan
from tests.support.memory_ports.server import MemoryServer


@dataclass
class MemoryArchives:
    """Files by address and name, and their storage classes."""

    held: dict[str, bytes] = field(default_factory=dict)
    storage_classes: dict[str, str] = field(default_factory=dict)

    def store(self, address: str, name: str, source: BinaryIO, storage_class: str = "") -> None:
        """Store the remaining bytes of the source."""
        self.held[f"{address}/{name}"] = source.read()
        self.storage_classes[f"{address}/{name}"] = storage_class

    def size(self, address: str, name: str) -> int | None:
        """Return the size of the file, or None if there is none."""
        data = self.held.get(f"{address}/{name}")
        return None if data is None else len(data)

    def delete(self, address: str, name: str) -> None:
        """Remove the file, if it exists."""
        self.held.pop(f"{address}/{name}", None)


class MemoryRetentionProgress:
    """The progress of the scan."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def lock(self, token: str, seconds: float) -> bool:
        """Return True if this worker may scan for these seconds."""
        now = self._clock.now()
        with self._server as held:
            holder, until = held.retention_lock
            if until > now:
                return holder == token
            held.retention_lock = (token, now + seconds)
            return True

    def load(self) -> RetentionScan | None:
        """Return the progress."""
        with self._server as held:
            return held.retention_scan

    def save(self, before: RetentionScan | None, after: RetentionScan) -> bool:
        """Replace the progress, if it is still `before`."""
        with self._server as held:
            if held.retention_scan not in (before, after):
                return False
            held.retention_scan = after
            return True
