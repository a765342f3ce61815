"""Supervision of the running code: reads its output and enforces its limits."""

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from roboco.adapters.sandbox.limits import SandboxLimits
from roboco.adapters.sandbox.output_buffer import Output
from roboco.adapters.sandbox.process import Box
from roboco.adapters.sandbox.resource_usage import exceeded
from roboco.adapters.sandbox.result import Ended

_LOOK, _ASK = 0.02, 0.05
"""Seconds between two measurements of resource usage, and between two checks for a cancellation."""
_READ = 65_536


@dataclass
class Attended:
    """One run. `end_reason` is the limit that ended it; "" while it runs and if it ended by itself."""

    box: Box
    code: bytes
    limits: SandboxLimits
    cancelled: Callable[[], bool]
    output: Output = field(init=False)
    ended: Ended = ""

    def __post_init__(self) -> None:
        self.output = Output(self.limits.output)
        self._deadline = time.monotonic() + self.limits.seconds
        self._ask_at = 0.0

    def to_the_end(self) -> None:
        """Return when no process is left, because the code ended, exceeded a limit, or was cancelled."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.box.output, selectors.EVENT_READ, self._read)
            ready.register(self.box.channel, selectors.EVENT_READ, self._begin)
            ready.register(self.box.death, selectors.EVENT_READ, self._read)
            look_at = 0.0
            while not self.ended and self.box.bwrap.poll() is None:
                for key, _ in ready.select(_LOOK):
                    if not key.data():
                        ready.unregister(key.fileobj)
                if time.monotonic() >= look_at:
                    self.ended = self._look()
                    look_at = time.monotonic() + _LOOK
        self.box.end()
        self._read_rest()

    def _begin(self) -> bool:
        self.box.take()
        if self.box.handles is not None:
            self.box.give(self.code)
        return False

    def _read(self) -> bool:
        """Read once. Return False at the end of the output."""
        try:
            data = os.read(self.box.output, _READ)
        except BlockingIOError:
            return True
        self.output.feed(data)
        return bool(data)

    def _read_rest(self) -> None:
        """Read the data that is left in the pipe when no process writes any more."""
        before = -1
        while before < self.output.total:
            before = self.output.total
            self._read()

    def _look(self) -> Ended:
        now = time.monotonic()
        if now >= self._deadline:
            return "time"
        if now >= self._ask_at:
            self._ask_at = now + _ASK
            if self.cancelled():
                return "cancelled"
        if self.output.total > self.limits.printed:
            return "output"
        return exceeded(self.box.handles, self.limits) if self.box.handles else ""
