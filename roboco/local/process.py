"""Child processes of a local stack: started, probed until they answer, and stopped."""

import os
import secrets
import shutil
import signal
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
# Below the ports that Linux (from 32768) and macOS (from 49152) use for outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The child sets PR_SET_PDEATHSIG (1) to SIGTERM (15) and then executes the server. So no code of this process runs
# between fork and exec, which is unsafe in a process with threads. The check of the parent finds one that died earlier.
_BOUND_TO_PARENT = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, 15, 0, 0, 0) or os.getppid() != int(sys.argv[1]):
    sys.exit("cannot bind its life to process " + sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Server:
    """A child process of this process. Its output goes to the file `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout: float = 5) -> None:
        """Send SIGTERM, after `timeout` seconds SIGKILL, and return once the process has ended. Idempotent."""
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_server(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
) -> Server:
    """Start `argv` in a new session, so that Ctrl-C does not reach it, and return it. `env` None inherits ours.

    On Linux the kernel sends it SIGTERM when the calling *thread* ends, however this process ends. If the handler of a
    signal raises meanwhile, the server is killed.
    Raise UsageError outside the main thread, or if the program does not exist.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(f"server {name!r} is tied to its thread's life: start it from the main thread")
    binary = shutil.which(argv[0])
    if binary is None:
        raise UsageError(f"server {name!r} needs the program {argv[0]!r}, which is not installed")
    command = [os.path.abspath(binary), *argv[1:]]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _BOUND_TO_PARENT, str(os.getpid()), *command]
    log.parent.mkdir(parents=True, exist_ok=True)
    process: subprocess.Popen[bytes] | None = None
    try:
        with open(log, "ab", opener=_open_private) as output, _deferred_signals():
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
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        raise


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Inside the block, defer the handlers of signals that end a program: a child that no variable holds would remain.

    A mask would not do: the child inherits it, and another thread may receive the signal.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in handled:
            signal.signal(number, lambda caught, _: received.append(caught))
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for caught in received:
            signal.raise_signal(caught)


def wait_ready(server: Server, probe: Callable[[], bool], timeout: float) -> None:
    """Return once `probe` returns True. Otherwise, or on any exception, stop the server.

    Raise TransientError, with the end of its log, if the server ends or `timeout` seconds pass.
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
    """Return the first of `count` consecutive free ports of 127.0.0.1. Raise TransientError if there are none."""
    for _ in range(100):
        first = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT - count)
        if _all_free(first, count):
            return first
    raise TransientError(f"found no {count} consecutive free ports from {_FIRST_PORT} to {_LAST_PORT}")


def choose_port(wanted: int | None, count: int = 1) -> int:
    """Return `wanted`, or a free port if None. Raise UsageError if one of the `count` ports from it is taken."""
    if wanted is None:
        return free_port(count)
    if not _all_free(wanted, count):
        ports = f"port {wanted}" if count == 1 else f"one of the ports {wanted} to {wanted + count - 1}"
        raise UsageError(f"{ports} of {LOOPBACK} is in use or not allowed: choose another, or none")
    return wanted


@contextmanager
def exclusive_lock(folder: Path, server: str) -> Iterator[int]:
    """Lock `folder`, which is created if missing, and yield the lock's descriptor.

    A child that inherits the descriptor keeps the lock. Raise UsageError if a server of another process holds the lock.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{server}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try_lock(descriptor):
            raise UsageError(f"folder {str(folder)!r} is in use by another {server}: stop that one first")
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _failure(server: Server, problem: str) -> str:
    with server.log.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
        lines = log.read().decode(errors="replace").splitlines()[-12:]
    return "\n".join((f"server {server.name!r} {problem}; the end of {str(server.log)!r}:", *lines))
