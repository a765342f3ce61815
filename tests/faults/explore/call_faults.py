"""Faults of one port call of a process."""

from collections.abc import Callable
from typing import Any, Protocol

from roboco.engine.held_work import SHUTDOWN_REASON
from roboco.errors import TransientError
from tests.faults.explore.process import SimulatedProcess, make_call
from tests.support.memory_ports.watch import Crash, PortCall

IN_PROCESS = ("model.stream", "remote.", "toolbox.", "notifier.")
"""Calls that send no request to Redis or the workspace: none of them is repeated or takes effect later."""
NEVER_RAISES = ("dispatcher.report_attempt_end",)


class Scheduler(Protocol):
    """The part of a run that these faults use."""

    def delay_effect(self, call: PortCall, disturbances: int) -> None:
        """Make the call later, after a number of disturbances."""


def _die(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        process.dead = True
        raise Crash

    process.call_fault = verdict


def _die_late(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        run.delay_effect(call, choice)
        process.dead = True
        raise Crash

    process.call_fault = verdict


def _fail(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        raise TransientError("refused")

    process.call_fault = verdict


def _unanswered(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        call()
        raise TransientError("no answer")

    process.call_fault = verdict


def _fail_late(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        run.delay_effect(call, choice)
        raise TransientError("no answer yet")

    process.call_fault = verdict


def _twice(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    def verdict(call: PortCall) -> Any:
        call()
        return call()

    process.call_fault = verdict


def _only_requests(strike: "FaultSetter", otherwise: "FaultSetter") -> "FaultSetter":
    """Return the first fault for requests, which a network may delay or repeat, else the other one."""

    def chosen(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
        (otherwise if process.pending.startswith(IN_PROCESS) else strike)(run, process, choice)

    return chosen


def _where_possible(strike: "FaultSetter") -> "FaultSetter":
    def chosen(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
        if process.pending not in NEVER_RAISES:
            strike(run, process, choice)

    return chosen


def _drain(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    """Shut the worker down: its work ends by itself, or is handed over before its next call, which is late."""

    def verdict(call: PortCall) -> Any:
        for item in list(process.engine.process.held_work._held) if process.engine else ():
            item.reason = SHUTDOWN_REASON
            item.interrupt()
            if choice % 2 and not item._is_handed_over:  # a hand-over makes port calls, which another drain may disturb
                item.hand_over()
                if item.work.tool:  # its process is killed
                    process.dead = True
                    raise Crash
        return call()

    process.call_fault = verdict


def _nothing(run: Scheduler, process: SimulatedProcess, choice: int) -> None:
    process.call_fault = make_call


FaultSetter = Callable[[Scheduler, SimulatedProcess, int], None]
CALL_FAULTS: dict[str, FaultSetter] = {
    "die": _die,
    "die-late": _only_requests(_die_late, _die),
    "fail": _where_possible(_fail),
    "unanswered": _where_possible(_unanswered),
    "fail-late": _where_possible(_only_requests(_fail_late, _fail)),
    "twice": _only_requests(_twice, _nothing),
    "drain": _drain,
}
"""Faults by the kind of the disturbance."""
