"""CPU seconds of processes and their descendants, from Linux' /proc."""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USED = 1, slice(11, 15)
"""Positions in /proc/PID/stat after the name: the parent, and the user and kernel times of process and children."""


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds of the processes with these ids and of their descendants, also of ended ones."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # the process has ended
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
