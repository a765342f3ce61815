"""Child processes of a local stack: started, probed until they answer, and stopped."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from roboco.errors import TransientError, UsageError

LOOPBACK = "127.0.0.1"
# Outside of the ports that Linux (32768 up) and macOS (49152 up) hand to outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000

# Replaces itself by the server, with PR_SET_PDEATHSIG (1) SIGTERM (15) set: no code of ours runs between
# fork and exec, which is unsafe in a process with threads. A parent that died before the call is noticed.
_TIED = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, 15, 0, 0, 0) or os.getppid() != int(sys.argv[1]):
    sys.exit("cannot be tied to the life of process " + sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Server:
    """A child process that this process started; its output goes to the file `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout: float = 5) -> None:
        """End the process: SIGTERM, after `timeout` seconds SIGKILL. Idempotent; returns when it is gone."""
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
) -> Server:
    """Start `argv` in a session of its own, so that Ctrl-C does not reach it; `env` None inherits ours.

    On Linux the kernel sends it SIGTERM when the calling *thread* ends, however this process ends.
    Raises UsageError off the main thread, or when the program does not exist.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(f"server {name!r} is tied to its thread's life: start it from the main thread")
    binary = shutil.which(argv[0])
    if binary is None:
        raise UsageError(f"server {name!r} needs the program {argv[0]!r}, which is not there")
    command = [os.path.abspath(binary), *argv[1:]]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=_private) as output:
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return Server(name, process, log)


def wait_ready(server: Server, probe: Callable[[], bool], timeout: float) -> None:
    """Return once `probe` is true. Else, or on any exception, stop the server.

    Raises TransientError with the end of its log when it dies or `timeout` seconds pass.
    """
    deadline = time.monotonic() + timeout
    try:
        while server.alive():
            if probe() and server.alive():
                return
            if time.monotonic() > deadline:
                raise TransientError(_failure(server, f"was not ready after {timeout:g} s"))
            with suppress(subprocess.TimeoutExpired):
                server.process.wait(0.02)
        raise TransientError(_failure(server, f"ended with code {server.process.returncode}"))
    except BaseException:
        server.stop()
        raise


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive ports of 127.0.0.1 on which nothing listens now."""
    for _ in range(100):
        first = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT - count)
        if _all_free(first, count):
            return first
    raise TransientError(f"found no {count} consecutive free ports from {_FIRST_PORT} to {_LAST_PORT}")


def chosen_port(wanted: int | None, count: int = 1) -> int:
    """`wanted`, or a free port when None; raises UsageError when one of the `count` from it is taken."""
    if wanted is None:
        return free_port(count)
    if not _all_free(wanted, count):
        ports = f"port {wanted}" if count == 1 else f"one of the ports {wanted} to {wanted + count - 1}"
        raise UsageError(f"{ports} of {LOOPBACK} is in use or not allowed: choose another, or none")
    return wanted


@contextmanager
def held(folder: Path, what: str) -> Iterator[int]:
    """The descriptor of an exclusive lock on `folder`, made if absent; who inherits it keeps the lock.

    Raises UsageError when a server of another process holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _locks(descriptor):
            raise UsageError(f"folder {str(folder)!r} is in use by another {what}: stop that one first")
        yield descriptor
    finally:
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _all_free(first: int, count: int) -> bool:
    if not 0 < first <= 65_536 - count:
        return False
    with ExitStack() as listeners:
        try:
            for port in range(first, first + count):
                listeners.enter_context(socket.create_server((LOOPBACK, port)))
        except OSError:
            return False
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _failure(server: Server, what: str) -> str:
    with server.log.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
        lines = log.read().decode(errors="replace").splitlines()[-12:]
    return "\n".join((f"server {server.name!r} {what}; the end of {str(server.log)!r}:", *lines))
