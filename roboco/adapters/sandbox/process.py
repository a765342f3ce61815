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

from roboco.adapters.sandbox.bubblewrap import NOBODY
from roboco.errors import TransientError

_DIES_WITHIN = 10
"""Seconds after which killed processes must be gone, also on a machine under load."""


@dataclass(frozen=True)
class Handles:
    """Descriptors: the working folder, the list of processes in the sandbox, and the first of these processes."""

    folder: int
    processes: int
    first: int


@dataclass
class Box:
    """A started bubblewrap. Once `handles` is set, it ends only when every process inside is gone.

    Descriptors: `output` never blocks its reader; `death` becomes readable when bubblewrap has ended.
    """

    bwrap: subprocess.Popen[bytes]
    output: int
    channel: socket.socket
    info: int
    death: int
    held: ExitStack
    handles: Handles | None = None

    def take(self) -> None:
        """Receive the handles that the first process sends once the channel is readable. Do nothing if it has died."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self.channel, 1, 2)
        except ConnectionError:
            return
        for descriptor in descriptors:
            self.held.callback(os.close, descriptor)
        if len(descriptors) == 2:
            first = os.pidfd_open(json.loads(os.pread(self.info, 4096, 0))["child-pid"])
            self.held.callback(os.close, first)
            self.handles = Handles(descriptors[0], descriptors[1], first)

    def give(self, code: bytes) -> None:
        """Send the code. It runs until it ends or the worker's end of the channel closes, for example by its death."""
        with suppress(
            ConnectionError, TimeoutError
        ):  # it died, and its output contains the cause; or it hangs until its time limit
            self.channel.sendall(struct.pack("=Q", len(code)) + code)

    def end(self) -> None:
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
                    signal.pidfd_send_signal(self.handles.first, signal.SIGKILL)
        try:
            self.bwrap.wait(_DIES_WITHIN)
        except subprocess.TimeoutExpired as error:
            self.bwrap.kill()
            raise TransientError(
                f"process {self.bwrap.pid} of a sandbox did not end within {_DIES_WITHIN} s"
            ) from error


@contextmanager
def started(arguments: Sequence[str], passed: Sequence[int], channel: socket.socket, info: int) -> Iterator[Box]:
    """Start bubblewrap with the descriptors `passed`; `channel` and `info` are the worker's ends of two of them.

    When the block ends, no process is left. Raise TransientError if bubblewrap cannot be started.
    """
    with ExitStack() as held:
        output, write = os.pipe()
        held.callback(os.close, output)
        os.set_blocking(output, False)
        try:
            bwrap = _run(arguments, write, passed)
        finally:
            os.close(write)
        box = Box(bwrap, output, channel, info, os.pidfd_open(bwrap.pid), held)
        held.callback(os.close, box.death)
        try:
            yield box
        finally:
            box.end()


def _run(arguments: Sequence[str], output: int, passed: Sequence[int]) -> subprocess.Popen[bytes]:
    dropped = NOBODY if os.geteuid() == 0 else None
    try:
        return subprocess.Popen(
            arguments,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=passed,
            start_new_session=True,
            user=dropped,
            group=dropped,
            extra_groups=None if dropped is None else [],
        )
    except OSError as error:
        as_whom = "" if dropped is None else f" as user {dropped}, to which a worker of root switches for it"
        raise TransientError(f"cannot start {arguments[0]!r}{as_whom}: {error}") from error
