"""The result of a run in the sandbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EndReason = Literal["", "time", "memory", "processes", "entries", "output", "cancelled"]
"""The limit that ended a run, or "cancelled"; "" if the run ended by itself."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that the code wrote; this process can read `path` while the run's block lasts."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    `output` is the text that the code printed, errors included, in order, with a note where it was truncated.
    `exit_code` is None for a run that was ended, and 128 + the signal for code that a signal ended.
    `skipped` has a line for each written file that is not kept, with the reason.
    """

    output: str
    exit_code: int | None
    end_reason: EndReason
    files: tuple[WrittenFile, ...]
    skipped: tuple[str, ...]
