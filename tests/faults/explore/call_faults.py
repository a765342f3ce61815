"""Faults of one port call of a process."""

from collections.abc import Callable
from functools import partial
from typing import Any

from roboco.engine.held_work import SHUTDOWN_REASON
from roboco.errors import TransientError
from tests.faults.explore.process import SimulatedProcess
from tests.support.memory_ports.watch import Crash, PortCall

IN_PROCESS = ("model.stream", "remote.", "toolbox.", "notifier.")
"""Calls that send no request to Redis or the workspace: none of them is repeated or takes effect later."""
FAULTS_IN_PROCESS = {"die-late": "die", "fail-late": "fail", "twice": ""}
"""The faults of such calls in place of those of requests; "" is none."""
NEVER_RAISES = ("dispatcher.report_attempt_end",)
RAISING = ("fail", "unanswered", "fail-late")
Delay = Callable[[PortCall], None]
"""Makes the call later, after a number of disturbances."""


def set_fault(kind: str, process: SimulatedProcess, choice: int, delay: Delay) -> None:
    """Let the pending call of the process have this kind of fault, if it can."""
    if process.pending.startswith(IN_PROCESS):
        kind = FAULTS_IN_PROCESS.get(kind, kind)
    if kind and not (kind in RAISING and process.pending in NEVER_RAISES):
        process.call_fault = partial(_CALL_FAULTS[kind], process, choice, delay)


def _die(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    process.dead = True
    raise Crash


def _die_late(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    delay(call)
    process.dead = True
    raise Crash


def _fail(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    raise TransientError("refused")


def _unanswered(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    call()
    raise TransientError("no answer")


def _fail_late(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    delay(call)
    raise TransientError("no answer yet")


def _twice(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    call()
    return call()


def _drain(process: SimulatedProcess, choice: int, delay: Delay, call: PortCall) -> Any:
    """Shut the worker down: its work ends by itself, or is handed over before its next call, which is late."""
    for item in list(process.engine.process.held_work._held) if process.engine else ():
        item.reason = SHUTDOWN_REASON
        item.interrupt()
        if choice % 2 and not item._is_handed_over:  # a hand-over makes port calls, which another drain may disturb
            item.hand_over()
            if item.work.tool:  # its process is killed
                process.dead = True
                raise Crash
    return call()


_CALL_FAULTS: dict[str, Callable[..., Any]] = {
    "die": _die,
    "die-late": _die_late,
    "fail": _fail,
    "unanswered": _unanswered,
    "fail-late": _fail_late,
    "twice": _twice,
    "drain": _drain,
}
