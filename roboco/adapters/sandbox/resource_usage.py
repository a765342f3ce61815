"""What the processes in a sandbox use, seen from outside."""

import os
from contextlib import suppress

from roboco.adapters.sandbox.limits import FIRST_PROCESS, SandboxLimits
from roboco.adapters.sandbox.process import Handles
from roboco.adapters.sandbox.result import Ended

_FIRST = "1"
_MEMORY = (b"RssAnon", b"RssShmem", b"VmSwap", b"VmPTE")
_SOCKET = 256 * 1024
"""The most that waits unread in a socket, whose size the filter of system calls keeps at the kernel's default."""


def exceeded(handles: Handles, limits: SandboxLimits) -> Ended:
    """The limit that the processes and files of the sandbox go beyond at this moment, "" for none."""
    memory, tasks = _processes(handles.processes)
    if memory > limits.memory + FIRST_PROCESS:
        return "memory"
    if tasks > limits.processes + 1:
        return "processes"
    entries = os.fstatvfs(handles.folder)
    return "entries" if entries.f_files - entries.f_ffree > limits.entries else ""


def _processes(folder: int) -> tuple[int, int]:
    memory = tasks = 0
    for name in os.listdir(folder):
        if name.isdigit():
            used = _status(folder, name)
            memory += 1024 * sum(used.get(field, 0) for field in _MEMORY)
            tasks += used.get(b"Threads", 0)
    return memory + _SOCKET * _sockets(folder), tasks


def _status(folder: int, pid: str) -> dict[bytes, int]:
    """The numbers in the status of a process, memory in KiB; none if it is gone."""
    # its name, which the process chooses, stands there without line breaks
    lines = (line for line in _read(folder, f"{pid}/status").splitlines() if line.startswith((*_MEMORY, b"Threads")))
    fields = (line.split(b":", 1) for line in lines)
    return {field: int(value.split()[0]) for field, value in fields}


def _sockets(folder: int) -> int:
    """How many sockets there are in the sandbox's own network."""
    first, _, _ = _read(folder, f"{_FIRST}/net/sockstat").partition(b"\n")
    return int(first.split()[-1]) if first else 0


def _read(folder: int, path: str) -> bytes:
    """What the kernel says there, nothing about a process that is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(descriptor, 16_384)
        finally:
            os.close(descriptor)
    return b""
