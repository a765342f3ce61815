"""Resource usage of the processes in a sandbox, measured from outside."""

import os
from contextlib import suppress

from roboco.tools.sandbox.limits import INIT_BYTES, SandboxLimits
from roboco.tools.sandbox.process import SandboxHandles
from roboco.tools.sandbox.result import EndReason

_INIT_PID = "1"
_MEMORY_FIELDS = (b"RssAnon", b"RssShmem", b"VmSwap", b"VmPTE")
_SOCKET_BUFFER_BYTES = 256 * 1024
"""Maximum unread data in a socket: the system call filter keeps socket buffers at the kernel's default size."""


def exceeded_limit(handles: SandboxHandles, limits: SandboxLimits) -> EndReason:
    """Return the limit that the processes and files of the sandbox exceed now, or "" if none."""
    memory, tasks = _measure_processes(handles.processes)
    if memory > limits.memory + INIT_BYTES:
        return "memory"
    if tasks > limits.processes + 1:
        return "processes"
    entries = os.fstatvfs(handles.folder)
    return "entries" if entries.f_files - entries.f_ffree > limits.entries else ""


def _measure_processes(folder: int) -> tuple[int, int]:
    memory = tasks = 0
    for name in os.listdir(folder):
        if name.isdigit():
            used = _read_status(folder, name)
            memory += 1024 * sum(used.get(field, 0) for field in _MEMORY_FIELDS)
            tasks += used.get(b"Threads", 0)
    return memory + _SOCKET_BUFFER_BYTES * _count_sockets(folder), tasks


def _read_status(folder: int, pid: str) -> dict[bytes, int]:
    """Return the numbers in the status of a process, memory in KiB. Return an empty dict if it is gone."""
    # the status contains the process name, which the process chooses, without line breaks
    lines = (
        line
        for line in _read_file(folder, f"{pid}/status").splitlines()
        if line.startswith((*_MEMORY_FIELDS, b"Threads"))
    )
    fields = (line.split(b":", 1) for line in lines)
    return {field: int(value.split()[0]) for field, value in fields}


def _count_sockets(folder: int) -> int:
    """Return the number of sockets in the sandbox's own network."""
    first, _, _ = _read_file(folder, f"{_INIT_PID}/net/sockstat").partition(b"\n")
    return int(first.split()[-1]) if first else 0


def _read_file(folder: int, path: str) -> bytes:
    """Return the content of the kernel's file, or b"" if the process is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(descriptor, 16_384)
        finally:
            os.close(descriptor)
    return b""
