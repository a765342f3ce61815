"""A process of the deployment, in a thread that runs only while the scheduler waits for it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from roboco.engine.engine import Engine
from tests.support.memory_ports.watch import Crash, PortCall

CallFault = Callable[[PortCall], Any]
"""Decides the outcome of a port call: makes it, drops it, repeats it, or raises."""

HANG_TIMEOUT = 60.0
"""Seconds after which a process that reaches no port call counts as blocked."""
_THREADS = ThreadPoolExecutor(max_workers=1000, thread_name_prefix="process")


def make_call(call: PortCall) -> Any:
    """Make the call without a fault."""
    return call()


class SimulatedProcess:
    """A process that the scheduler runs from port call to port call. `error` is the exception that ended it."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.error: Exception | None = None
        self.engine: Engine | None = None
        self.ended = False
        self.dead = False
        self.steps_at_start: dict[str, int] = {}  # the number of stored steps of each task as the process began
        self.call_fault: CallFault = make_call
        self.pending = ""
        self._work = work
        self._started = False
        self._mine, self._schedulers, self._one_call = threading.Lock(), threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._schedulers.acquire()

    def run_to_pause(self) -> None:
        """Run until the next pause or the end. Only the scheduler calls this."""
        if self._started:
            self._mine.release()
        else:
            self._started = True
            _THREADS.submit(self._run)
        if not self._schedulers.acquire(timeout=HANG_TIMEOUT):
            raise RuntimeError(f"process {self.name!r} hangs outside of its port calls, after {self.pending!r}")

    def pause(self, name: str, call: PortCall) -> Any:
        """Wait at a port call for the scheduler, then apply its fault. Only the process's threads call this."""
        with self._one_call:  # a process may read several files at the same time
            self.pending = name
            self._schedulers.release()
            self._mine.acquire()
            verdict, self.call_fault, self.pending = self.call_fault, make_call, ""
            if self.dead:
                raise Crash
        return verdict(call)

    def kill(self) -> None:
        """End the process at its port call, whose effect does not happen. Only the scheduler calls this."""
        self.dead = True
        while self._started and not self.ended:
            self.run_to_pause()
        self.ended = True

    def _run(self) -> None:
        try:
            self._work()
        except Crash:
            self.dead = True
        except Exception as error:
            self.error = error
        finally:
            self.ended = True
            self._schedulers.release()
