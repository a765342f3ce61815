"""A program between a worker and the MCP server that it started. It ends the server when the worker ends.

Started as `watchdog.py PID REPORT COMMAND...` in a new session; PID is the worker. The server inherits stdin and
stdout. When the worker closes stdin, or dies for any reason, the server has GRACE_PERIOD seconds to end. Then the
watchdog kills it, with everything in its process group. Imports nothing of Roboco, so that it starts in a few
milliseconds.

REPORT is the descriptor of a pipe to the worker. At the end the watchdog writes one line with the exit status to it,
empty if the server has to be killed, and then the last MAX_STDERR_BYTES bytes of the server's stderr. The watchdog
reads stderr, so that a server that floods it costs the worker nothing.
"""

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time

GRACE_PERIOD = 2.0
"""Seconds that a server has to end after its input was closed."""
MAX_OPEN_FILES, MAX_FILE_BYTES = 4096, 1 << 30
"""Maximum number of files that a server may hold open, and of bytes in a file that it writes."""
MAX_STDERR_BYTES = 16 * 1024
"""Bytes of the end of stderr that are reported: as many as a pipe accepts in one write."""
_POLL_MILLISECONDS = 1000
"""Milliseconds between checks that the worker lives: a process that it forked may hold stdin open."""
_EXIT_POLL_SECONDS = 0.05
"""Seconds between checks whether the server has ended, after its input was closed."""


class _StderrTail:
    """The end of the server's stderr, without a truncated first line."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._tail = b""
        self._truncated = False

    def read(self) -> bool:
        """Read the available bytes. Return False at the end of the stream."""
        try:
            data = os.read(self.descriptor, 4 * MAX_STDERR_BYTES)
        except BlockingIOError:
            return True
        self._truncated = self._truncated or len(self._tail) + len(data) > MAX_STDERR_BYTES
        self._tail = (self._tail + data)[-MAX_STDERR_BYTES:]
        return bool(data)

    @property
    def last_lines(self) -> bytes:
        """Return the last lines. A truncated first line is omitted: a part of a secret could not be masked."""
        return self._tail.partition(b"\n")[2] if self._truncated else self._tail


def main(worker: int, report: int, command: list[str]) -> None:
    """Run the command until it or the worker ends, then end all that is left of it."""
    _set_limits()
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    stderr_read, stderr = os.pipe()
    try:
        server = subprocess.Popen(command, stderr=stderr)
    except OSError as error:
        _report(report, 127, str(error).encode())
        sys.exit(127)
    os.close(stderr)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # the worker must see the end of the server's output
    stderr_tail = _StderrTail(stderr_read)
    _watch(server, worker, wakeup_read, stderr_tail)
    _wait_for_end(server, stderr_tail)
    _report(report, server.poll(), stderr_tail.last_lines)
    os.killpg(0, signal.SIGKILL)


def _report(report: int, status: int | None, stderr: bytes) -> None:
    with contextlib.suppress(OSError):  # the worker may be gone
        os.write(report, (b"" if status is None else b"%d" % status) + b"\n" + stderr)


def _set_limits() -> None:
    """Limit the server's resources: no core dump, which would contain its secrets, and no endless files."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
    ):
        most = resource.getrlimit(limit)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))


def _watch(server: "subprocess.Popen[bytes]", worker: int, wakeup: int, stderr_tail: _StderrTail) -> None:
    """Return when the server has ended, its input has been closed, or the worker is gone."""
    poll = select.poll()
    poll.register(0, 0)  # only the hang-up: the data belongs to the server
    poll.register(wakeup, select.POLLIN)
    poll.register(stderr_tail.descriptor, select.POLLIN)
    while server.poll() is None and os.getppid() == worker:
        ready = [descriptor for descriptor, _ in poll.poll(_POLL_MILLISECONDS)]
        if 0 in ready:
            return
        if wakeup in ready:
            os.read(wakeup, 4096)  # a stopped child wakes this process, too
        if stderr_tail.descriptor in ready and not stderr_tail.read():
            poll.unregister(stderr_tail.descriptor)


def _wait_for_end(server: "subprocess.Popen[bytes]", stderr_tail: _StderrTail) -> None:
    """Wait for the end of the server, at most GRACE_PERIOD seconds, and read its remaining stderr."""
    until = time.monotonic() + GRACE_PERIOD
    while server.poll() is None and (left := until - time.monotonic()) > 0:
        readable = select.select([stderr_tail.descriptor], [], [], min(left, _EXIT_POLL_SECONDS))[0]
        if readable and not stderr_tail.read():
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(max(0.0, until - time.monotonic()))
    stderr_tail.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
