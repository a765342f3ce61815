"""pulse_note: the file with the liveness of a worker: the time of the last probe, and the problem, if any."""

import json
import os
import time
from pathlib import Path

from roboco.errors import UsageError


class HealthFile:
    """Writes the file `path` atomically: a reader sees a whole note.

    A signal handler may call `end` in the middle of any method here, and of another `end`.
    """

    def __init__(self, path: Path, limit: float) -> None:
        self._path = path
        self._limit = limit
        self._ending = False

    def reset(self) -> None:
        """Remove the note of an earlier worker in the same container. UsageError if no note can be written here."""
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"ROBOCO_HEALTH_DIR={str(folder)!r} cannot be written: {error}; name a folder in memory"
            ) from error

    def write(self, now: float, problem: str | None) -> None:
        """Write the problem, or None, at this time of the monotonic clock."""
        ending = self._ending
        self._write(now, problem, ending)
        if self._ending and not ending:  # `end` was called meanwhile, and must not be overwritten
            self._write(now, problem, True)

    def write_ending(self) -> None:
        """Write that the worker shuts down, so that its probes may stop."""
        if not self._ending:
            self._ending = True
            self._write(time.monotonic(), None, True)

    def _write(self, now: float, problem: str | None, ending: bool) -> None:
        record = {"time": now, "limit": self._limit, "problem": problem, "ending": ending}
        new_file = self._path.with_suffix(".ending" if ending else ".new")
        new_file.write_text(json.dumps(record))
        os.replace(new_file, self._path)
