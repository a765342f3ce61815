"""Supervision of the running code: reads its output and enforces its limits."""

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from roboco.tools.sandbox.limits import SandboxLimits
from roboco.tools.sandbox.output_buffer import OutputBuffer
from roboco.tools.sandbox.process import SandboxProcess
from roboco.tools.sandbox.resource_usage import exceeded_limit
from roboco.tools.sandbox.result import EndReason

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
