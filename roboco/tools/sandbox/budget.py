"""The memory that all sandboxes of one worker share.

The kernel ends a worker whose processes, sandboxes included, exceed the memory limit of its cgroup. So each sandbox
gets an equal, fixed share: `total` divided by the number of sandboxes that can run at once. Nothing is counted at run
time, so a process that dies leaves no reservation behind.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roboco.tools.sandbox.limits import MIB, SandboxLimits

_log = logging.getLogger(__name__)

BYTES_PER_PROCESS = 96 * MIB
"""Memory reserved for each process of the worker: 50 MB when idle, and the file that a call reads or stores."""
MIN_SHARE = 64 * MIB
"""The smallest share that runs Python with a few small files."""
_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes a number just below 2^63 where there is no limit."""


@dataclass(frozen=True)
class MemoryBudget:
    """Memory for the sandboxes of one worker.

    `total` is in bytes, or None without a limit; `source` names its origin in messages; `sandboxes` is the number that
    can run at the same time.
    """

    total: int | None = None
    source: str = ""
    sandboxes: int = 1

    def share(self, full: int) -> int:
        """Return the bytes that one sandbox may take: `full`, or less if not all of them fit."""
        return full if self.total is None else min(full, self.total // self.sandboxes)

    def refusal(self) -> str:
        """Return the reason and remedy if a share is too small to run Python, or "" if it is large enough."""
        share = self.share(MIN_SHARE)
        if share >= MIN_SHARE:
            return ""
        return (
            f"the sandbox for code has too little memory: {self.source} gives each of {self.sandboxes} sandboxes that "
            f"can run at once {max(share, 0) // MIB} MiB, and each needs {MIN_SHARE // MIB} MiB; raise "
            f"ROBOCO_SANDBOX_MEMORY (MiB for all of them) and the memory limit of the tools worker's container, or "
            f"start the worker with a smaller --concurrency"
        )


def read_budget(megabytes: int | None, sandboxes: int, root: Path = Path("/")) -> MemoryBudget:
    """Return the budget of a worker that runs this number of sandboxes at the same time, one per process.

    `megabytes` is the operator's ROBOCO_SANDBOX_MEMORY. If it is None, the budget is the cgroup's memory limit minus
    `BYTES_PER_PROCESS` for each process of the worker. A pool has one process more than children.
    """
    if megabytes is not None:
        return MemoryBudget(megabytes * MIB, f"ROBOCO_SANDBOX_MEMORY={megabytes}", sandboxes)
    limit = memory_limit(root)
    if limit is None:
        return MemoryBudget(sandboxes=sandboxes)
    processes = sandboxes + 1
    source = (
        f"the cgroup's memory limit of {limit // MIB} MiB less {BYTES_PER_PROCESS // MIB} MiB for each of the worker's "
        f"{processes} processes"
    )
    return MemoryBudget(limit - BYTES_PER_PROCESS * processes, source, sandboxes)


def log_sandbox_share(budget: MemoryBudget) -> None:
    """Log, once per worker start, the share of one sandbox if it is less than the full size."""
    full = SandboxLimits().total_memory
    if refusal := budget.refusal():
        _log.warning("tool 'python' is not possible here: %s", refusal)
    elif budget.share(full) < full:
        share = budget.share(full) // MIB
        text = "each of %d sandboxes for code gets %d MiB of at most %d, because of %s"
        _log.info(text, budget.sandboxes, share, full // MIB, budget.source)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the lowest memory limit, in bytes, of this process's cgroup and those above it, or None without limit."""
    found = [limit for path in _limit_files(root) if (limit := _read_limit(path)) is not None]
    return min(found, default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    """Yield the files that can hold a limit. Some do not exist: a container does not see the cgroups above its own."""
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _cgroup_files(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _cgroup_files(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _cgroup_files(mounted: Path, path: str, name: str) -> Iterator[Path]:
    below = PurePosixPath(path.lstrip("/"))
    if ".." in below.parts:  # the process is outside of the cgroups that are mounted here
        below = PurePosixPath()
    for folder in (below, *below.parents):
        yield mounted / folder / name


def _read_limit(path: Path) -> int | None:
    text = _read_text(path).strip()
    return int(text) if text.isdigit() and int(text) < _UNLIMITED_BYTES else None


def _read_text(path: Path) -> str:
    with suppress(OSError):  # missing, or hidden from the worker: then no limit is known
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
