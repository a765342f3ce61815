"""A started sandbox: its processes, and the descriptors through which the worker supervises it."""

import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from roboco.errors import TransientError
from roboco.tools.sandbox.bubblewrap import UNPRIVILEGED_UID

_KILL_TIMEOUT = 10
"""Seconds after which killed processes must be gone, also on a machine under load."""


@dataclass(frozen=True)
class SandboxHandles:
    """Descriptors: the working folder, the list of processes in the sandbox, and the first of these processes."""

    folder: int
    processes: int
    init_pidfd: int


@dataclass
class SandboxProcess:
    """A started bubblewrap. Once `handles` is set, it ends only when every process inside is gone.

    Descriptors: `output` never blocks its reader; `death` becomes readable when bubblewrap has ended.
    """

    bwrap: subprocess.Popen[bytes]
    output: int
    channel: socket.socket
    info: int
    death: int
    stack: ExitStack
    handles: SandboxHandles | None = None

    def receive_handles(self) -> None:
        """Receive the handles that the first process sends once the channel is readable. Do nothing if it has died."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self.channel, 1, 2)
        except ConnectionError:
            return
        for descriptor in descriptors:
            self.stack.callback(os.close, descriptor)
        if len(descriptors) == 2:
            first = os.pidfd_open(json.loads(os.pread(self.info, 4096, 0))["child-pid"])
            self.stack.callback(os.close, first)
            self.handles = SandboxHandles(descriptors[0], descriptors[1], first)

    def send_code(self, code: bytes) -> None:
        """Send the code. It runs until it ends or the worker's end of the channel closes, for example by its death."""
        with suppress(
            ConnectionError, TimeoutError
        ):  # it died, and its output contains the cause; or it hangs until its time limit
            self.channel.sendall(struct.pack("=Q", len(code)) + code)

    def kill(self) -> None:
        """Kill every process in the sandbox and return when none is left. Idempotent.

        Raise TransientError if processes survive. Without handles, no code has started, and the first process ends when
        it finds the channel closed. Bubblewrap itself is not killed at this stage: its children could wait for it for
        ever.
        """
        if self.bwrap.poll() is None:
            if self.handles is None:
                self.channel.close()
            else:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.handles.init_pidfd, signal.SIGKILL)
        try:
            self.bwrap.wait(_KILL_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            self.bwrap.kill()
            raise TransientError(
                f"process {self.bwrap.pid} of a sandbox did not end within {_KILL_TIMEOUT} s"
            ) from error


@contextmanager
def start_sandbox(
    arguments: Sequence[str], inherited: Sequence[int], channel: socket.socket, info: int
) -> Iterator[SandboxProcess]:
    """Start bubblewrap with the descriptors `inherited`; `channel` and `info` are the worker's ends of two of them.

    When the block ends, no process is left. Raise TransientError if bubblewrap cannot be started.
    """
    with ExitStack() as stack:
        output, write = os.pipe()
        stack.callback(os.close, output)
        os.set_blocking(output, False)
        try:
            bwrap = _popen(arguments, write, inherited)
        finally:
            os.close(write)
        process = SandboxProcess(bwrap, output, channel, info, os.pidfd_open(bwrap.pid), stack)
        stack.callback(os.close, process.death)
        try:
            yield process
        finally:
            process.kill()


def _popen(arguments: Sequence[str], output: int, inherited: Sequence[int]) -> subprocess.Popen[bytes]:
    dropped = UNPRIVILEGED_UID if os.geteuid() == 0 else None
    try:
        return subprocess.Popen(
            arguments,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=inherited,
            start_new_session=True,
            user=dropped,
            group=dropped,
            extra_groups=None if dropped is None else [],
        )
    except OSError as error:
        as_whom = "" if dropped is None else f" as user {dropped}, to which a worker of root switches for it"
        raise TransientError(f"cannot start {arguments[0]!r}{as_whom}: {error}") from error
