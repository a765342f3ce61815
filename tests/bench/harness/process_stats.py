"""Noise: what the processors did besides the bench, so that a busy machine is told from a slow Roboco."""

import os
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Self

MAX_BACKGROUND_SHARE = 0.05
"""Which part of the processors others may have without being told."""
_TICKS = os.sysconf("SC_CLK_TCK")


class BackgroundLoad:
    """Measures from its making on, or from the last `taken`. Off Linux it knows nothing."""

    def __init__(self) -> None:
        self._since = self._read_times()

    def take_share(self) -> float | None:
        """Which part of all processors' time others have taken, steal of a hypervisor included; then it begins anew."""
        before, self._since = self._since, self._read_times()
        if before is None or self._since is None:
            return None
        seconds, busy, own = (now - then for now, then in zip(self._since, before, strict=True))
        return max(0.0, busy - own) / (seconds * (os.cpu_count() or 1))

    @staticmethod
    def _read_times() -> tuple[float, float, float] | None:
        """The time, and the seconds that all processors, and this process with its children, have worked."""
        try:
            user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
            now = time.monotonic()
        except OSError:
            return None
        busy = (user + nice + system + irq + soft + steal) / _TICKS
        used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        own = sum(one.ru_utime + one.ru_stime for one in used) + sum(_cpu_of(pid) for pid in _descendants(os.getpid()))
        return now, busy, own


class ProcessMeter:
    """A running process, by its id: what it costs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._since = self._cpu_clock()

    def restart(self) -> Self:
        """Count from now on."""
        self._since = self._cpu_clock()
        return self

    @property
    def cpu(self) -> float:
        """Seconds of processor time, user's and system's, since the counting began."""
        return self._cpu_clock() - self._since

    def _cpu_clock(self) -> float:
        """The kernel's clock of the process, in all its threads: finer than the ticks of /proc."""
        return time.clock_gettime((~self.pid << 3) | 2)

    @property
    def memory_mb(self) -> float:
        """The resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_with_children(pid: int) -> float:
    """Seconds of processor time of a process and of all that it has started."""
    return sum(map(_cpu_of, (pid, *_descendants(pid))))


def _cpu_of(pid: int) -> float:
    """Seconds of processor time of a process and of its ended children; 0 if it is gone."""
    return sum(map(int, _fields(pid)[11:15])) / _TICKS


def _descendants(ancestor: int) -> list[int]:
    parents = {int(entry.name): _fields(int(entry.name))[1:2] for entry in Path("/proc").glob("[0-9]*")}
    found, level = list[int](), [ancestor]
    while level:
        level = [pid for pid, parent in parents.items() if parent and int(parent[0]) in level]
        found += level
    return found


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on, which is the third; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
