"""The progress of the retention's scan on Redis, in the slot of the task index."""

from dataclasses import dataclass
from typing import Any

from roboco.ports.retention_progress import RetentionScan
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors


@dataclass(frozen=True)
class RedisRetentionProgress:
    """A string with the progress, changed by compare-and-set, and a lock."""

    scripts: Scripts
    keys: Keys

    def lock(self, token: str, seconds: float) -> bool:
        """Acquire the lock for these seconds. Return False if another worker holds it."""
        holder = self.scripts.run("set_key", [self.keys.retention_lock], token, "NX", "PX", int(seconds * 1000), "GET")
        return holder in (None, token)

    def now(self) -> float:
        """Return the time of the server, in Unix seconds."""
        with translating_errors():
            answer: Any = self.scripts.client.time()
        return float(answer[0]) + float(answer[1]) / 1e6

    def load(self) -> RetentionScan | None:
        """Return the progress, or None if there is none."""
        with translating_errors():
            stored: Any = self.scripts.client.get(self.keys.retention_progress)
            return None if stored is None else RetentionScan.from_json(stored)

    def save(self, before: RetentionScan | None, after: RetentionScan) -> bool:
        """Replace the progress, if it is still `before`."""
        texts = ("" if one is None else one.to_json() for one in (before, after))
        return bool(self.scripts.run("index_progress", [self.keys.retention_progress], *texts))
