"""CPU and memory of processes, and the share of the processors that other processes take during a bench."""

import os
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Self

MAX_BACKGROUND_SHARE = 0.05
"""Share of the processors above which the report calls the machine too noisy."""
_TICKS = os.sysconf("SC_CLK_TCK")


class BackgroundLoad:
    """The CPU time of other processes since this object was created or last asked; unknown outside Linux."""

    def __init__(self) -> None:
        self._since = self._read_times()

    def take_share(self) -> float | None:
        """Return the share of all processors that others took, with a hypervisor's steal, and restart the count.

        Return None if the share is unknown.
        """
        before, self._since = self._since, self._read_times()
        if before is None or self._since is None:
            return None
        seconds, busy, own = (now - then for now, then in zip(self._since, before, strict=True))
        return max(0.0, busy - own) / (seconds * (os.cpu_count() or 1))

    @staticmethod
    def _read_times() -> tuple[float, float, float] | None:
        """Return the time, the busy seconds of all processors, and those of this process with its children."""
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
    """The CPU time and memory of a running process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._since = self._cpu_clock()

    def restart(self) -> Self:
        """Restart the count of CPU time, and return this meter."""
        self._since = self._cpu_clock()
        return self

    @property
    def cpu(self) -> float:
        """CPU seconds in user and kernel mode since the start of the count."""
        return self._cpu_clock() - self._since

    def _cpu_clock(self) -> float:
        """Return the kernel's CPU clock of the process, with all threads: finer than the ticks of /proc."""
        return time.clock_gettime((~self.pid << 3) | 2)


def cpu_with_children(pid: int) -> float:
    """Return the CPU seconds of a process and of all its descendants."""
    return sum(map(_cpu_of, (pid, *_descendants(pid))))


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of its ended children, or 0 if it has ended."""
    return sum(map(int, _fields(pid)[11:15])) / _TICKS


def _descendants(ancestor: int) -> list[int]:
    parents = {int(entry.name): _fields(int(entry.name))[1:2] for entry in Path("/proc").glob("[0-9]*")}
    found, level = list[int](), [ancestor]
    while level:
        level = [pid for pid, parent in parents.items() if parent and int(parent[0]) in level]
        found += level
    return found


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third (the state) on; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
