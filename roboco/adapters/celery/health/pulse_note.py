"""The note of a worker's pulse: a file that says when it was felt last, and what is wrong, if anything."""

import json
import os
import time
from pathlib import Path

from roboco.errors import UsageError


class PulseNote:
    """Written to `path`; a reader sees the whole of a note or that of the time before.

    `end` may come from a signal's handler in the middle of anything here, and of another `end`.
    """

    def __init__(self, path: Path, limit: float) -> None:
        self._path = path
        self._limit = limit
        self._ending = False

    def begin(self) -> None:
        """Remove the note of a worker before, in the same container. UsageError if no note can be written here."""
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"ROBOCO_HEALTH_DIR={str(folder)!r} cannot be written: {error}; name a folder in memory"
            ) from error

    def tell(self, now: float, problem: str | None) -> None:
        """What is wrong now, in seconds of the monotonic clock."""
        ending = self._ending
        self._write(now, problem, ending)
        if self._ending and not ending:  # meanwhile, and that must not be taken back
            self._write(now, problem, True)

    def end(self) -> None:
        """The worker was told to end, so that its pulse may cease."""
        if not self._ending:
            self._ending = True
            self._write(time.monotonic(), None, True)

    def _write(self, now: float, problem: str | None, ending: bool) -> None:
        record = {"time": now, "limit": self._limit, "problem": problem, "ending": ending}
        beside = self._path.with_suffix(".ending" if ending else ".new")
        beside.write_text(json.dumps(record))
        os.replace(beside, self._path)
