"""What came of a run in the sandbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Ended = Literal["", "time", "memory", "processes", "entries", "output", "cancelled"]
"""Which limit ended a run, or that it was cancelled; "" for a run that ended by itself."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that the code wrote; `path` can be read by this process, while the run's block lasts."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True)
class Ran:
    """`output` is what the code printed, errors included, in order, and says where it was cut.

    `exit_code` is None for a run that was ended, and 128 + the signal for code that a signal ended.
    `skipped` says of each file that was written and is not kept why, one line each.
    """

    output: str
    exit_code: int | None
    ended: Ended
    files: tuple[WrittenFile, ...]
    skipped: tuple[str, ...]
