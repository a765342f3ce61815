"""A program of its own between a worker and the MCP server that it started: ends the server with the worker.

Started as `leash.py PID COMMAND...` in a new session; PID is the worker. The server inherits stdin and stdout. When the
worker closes stdin, or dies in whatever way, the server has GRACE seconds to end; then it is killed, with everything in
its process group. Imports nothing of Roboco: it starts in a few milliseconds.
"""

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys

GRACE = 2.0
"""Seconds that a server has to end after its input ended."""
OPEN_FILES, FILE = 4096, 1 << 30
"""How many files a server may hold open, and how many bytes one that it writes may have."""
_LOOK = 1000
"""Milliseconds between looks whether the worker lives: a process that it forked may hold stdin open."""


def main(worker: int, command: list[str]) -> None:
    """Run the command until it or the worker ends, then end what is left of it."""
    _limit()
    ends, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        server = subprocess.Popen(command)
    except OSError:
        sys.exit(127)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # the worker must see the end of the server's output
    _watch(server, worker, ends)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE)
    os.killpg(0, signal.SIGKILL)


def _limit() -> None:
    """Bound what the server may use: no core dump, which would hold its secrets, and no endless files."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE),
    ):
        most = resource.getrlimit(limit)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))


def _watch(server: "subprocess.Popen[bytes]", worker: int, ends: int) -> None:
    """Return when the server has ended, its input has been closed, or the worker is gone."""
    poll = select.poll()
    poll.register(0, 0)  # nothing but the hang-up: what is to be read belongs to the server
    poll.register(ends, select.POLLIN)
    while server.poll() is None and os.getppid() == worker:
        heard = [descriptor for descriptor, _ in poll.poll(_LOOK)]
        if 0 in heard:
            return
        if ends in heard:
            os.read(ends, 4096)  # a child that was only stopped is heard of, too


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
