"""Supervision of the running code: reads its output and enforces its limits."""

import codecs
import os
import selectors
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from roboco.tools.sandbox.limits import INIT_BYTES, SandboxLimits
from roboco.tools.sandbox.process import SandboxHandles, SandboxProcess
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


class OutputBuffer:
    """Keeps at most `cap` bytes of the output: its beginning and its end."""

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Number of bytes that were fed."""

    def append(self, data: bytes) -> None:
        """Append the next bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._half]

    def text(self) -> str:
        """Return the kept text, with a line that states how much was left out in the middle."""
        left_out = self.total - len(self._head) - len(self._tail)
        if not left_out:
            return (self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(bytes(self._head))
        tail = bytes(self._tail)
        begins = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        return f"{head}\n[... {left_out + begins} bytes of output left out here ...]\n" + tail[begins:].decode(
            errors="replace"
        )


_USAGE_INTERVAL, _CANCEL_CHECK_INTERVAL = 0.02, 0.05
"""Seconds between two measurements of resource usage, and between two checks for a cancellation."""
_READ_BYTES = 65_536


@dataclass
class RunSupervisor:
    """One run. `end_reason` is the limit that ended it; "" while it runs and if it ended by itself."""

    process: SandboxProcess
    code: bytes
    limits: SandboxLimits
    cancelled: Callable[[], bool]
    output: OutputBuffer = field(init=False)
    end_reason: EndReason = ""

    def __post_init__(self) -> None:
        self.output = OutputBuffer(self.limits.output)
        self._deadline = time.monotonic() + self.limits.seconds
        self._next_cancel_check = 0.0

    def wait(self) -> None:
        """Return when no process is left, because the code ended, exceeded a limit, or was cancelled."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.output, selectors.EVENT_READ, self._read_output)
            ready.register(self.process.channel, selectors.EVENT_READ, self._start_code)
            ready.register(self.process.death, selectors.EVENT_READ, self._read_output)
            next_usage_check = 0.0
            while not self.end_reason and self.process.bwrap.poll() is None:
                for key, _ in ready.select(_USAGE_INTERVAL):
                    if not key.data():
                        ready.unregister(key.fileobj)
                if time.monotonic() >= next_usage_check:
                    self.end_reason = self._check_limits()
                    next_usage_check = time.monotonic() + _USAGE_INTERVAL
        self.process.kill()
        self._read_rest()

    def _start_code(self) -> bool:
        self.process.receive_handles()
        if self.process.handles is not None:
            self.process.send_code(self.code)
        return False

    def _read_output(self) -> bool:
        """Read once. Return False at the end of the output."""
        try:
            data = os.read(self.process.output, _READ_BYTES)
        except BlockingIOError:
            return True
        self.output.append(data)
        return bool(data)

    def _read_rest(self) -> None:
        """Read the data that is left in the pipe when no process writes any more."""
        before = -1
        while before < self.output.total:
            before = self.output.total
            self._read_output()

    def _check_limits(self) -> EndReason:
        now = time.monotonic()
        if now >= self._deadline:
            return "time"
        if now >= self._next_cancel_check:
            self._next_cancel_check = now + _CANCEL_CHECK_INTERVAL
            if self.cancelled():
                return "cancelled"
        if self.output.total > self.limits.printed:
            return "output"
        return exceeded_limit(self.process.handles, self.limits) if self.process.handles else ""
