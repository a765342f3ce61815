"""Seconds of CPU of processes and all that they have started, as Linux counts them."""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USED = 1, slice(11, 15)
"""Places in /proc/PID/stat after the name: the parent, and own and ended children's time in user and kernel mode."""


def cpu_seconds(pids: Iterable[int]) -> float:
    """Seconds that the processes of these ids have used, with their children, also those that have ended."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # has ended meanwhile
            continue
        pid = int(path.parent.name)
        children[int(fields[_PARENT])].append(pid)
        ticks[pid] = sum(map(int, fields[_USED]))
    found, waiting = 0, list(pids)
    while waiting:
        pid = waiting.pop()
        found += ticks.get(pid, 0)
        waiting += children[pid]
    return found / TICKS
