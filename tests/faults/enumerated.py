"""Enumerated faults: complete runs in memory, each with a fault at another port call.

A case is a line, such as "tools unanswered@37" or "graph dies@12 late@15", and
`python -m tests.faults.enumerated tools unanswered@37` runs it and prints the result.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

from roboco.errors import TransientError
from tests.support.memory_ports.controlled import CONTROLLED, CUT_OFF, assert_cut_off
from tests.support.memory_ports.journeys import FORMED, JOURNEYS, assert_same
from tests.support.memory_ports.limited import LIMITED
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import POLICY, World
from tests.support.selection import PARTS

IN_PROCESS = ("model.stream", "toolbox.run", "toolbox.verify")
"""Calls within the process, which no network repeats."""


ALL = {"formed": FORMED, **JOURNEYS, **CONTROLLED, **CUT_OFF, **LIMITED}
"""Every journey by its name."""


@dataclass(frozen=True)
class FaultedCall:
    """A port call in which a fault happens."""

    world: World
    name: str
    call: PortCall

    def let_others_continue(self) -> None:
        """Let the lease expire, sweepers sweep, and other workers do all their work while this call hangs."""
        watch, self.world.watch = self.world.watch, make_call
        for _ in range(3):
            self.world.drain()
            self.world.clock.move(POLICY.lease + 1)
            self.world.sweep()
        self.world.drain()
        self.world.watch = watch


Injection = Callable[[FaultedCall], Any]


def _fails(struck: FaultedCall) -> Any:
    raise TransientError("refused")


def _unanswered(struck: FaultedCall) -> Any:
    struck.call()
    raise TransientError("no answer")


def _repeated(struck: FaultedCall) -> Any:
    if struck.name not in IN_PROCESS:
        struck.call()
    return struck.call()


def _late(struck: FaultedCall) -> Any:
    struck.let_others_continue()
    return struck.call()


def _answered_late(struck: FaultedCall) -> Any:
    answer = struck.call()
    struck.let_others_continue()
    return answer


def _dies(struck: FaultedCall) -> Any:
    raise Crash


def _dies_after(struck: FaultedCall) -> Any:
    struck.call()
    raise Crash


def _wiped(struck: FaultedCall) -> Any:
    answer = struck.call()
    struck.world.server.wipe()
    return answer


def _wiped_and_dies(struck: FaultedCall) -> Any:
    _wiped(struck)
    raise Crash


INJECTIONS: dict[str, Injection] = {
    "fails": _fails,
    "unanswered": _unanswered,
    "repeated": _repeated,
    "late": _late,
    "answered-late": _answered_late,
    "dies": _dies,
    "dies-after": _dies_after,
    "wiped": _wiped,
    "wiped-and-dies": _wiped_and_dies,
}


def places(kind: str, part: int) -> Iterator[int]:
    """Yield the port calls, from 1 on and without an end, at which this part causes the kind of fault.

    It is every tenth call, beginning at another one for each kind: in each part, nine of ten calls have a fault.
    """
    return count(1 + (part + list(INJECTIONS).index(kind)) % PARTS, PARTS)


@dataclass(frozen=True)
class PlannedFault:
    """A kind of fault at the n-th port call of the run, from 1."""

    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.at}"


@dataclass(frozen=True)
class FaultCase:
    """A journey and its faults."""

    journey: str
    faults: tuple[PlannedFault, ...]

    def __str__(self) -> str:
        return " ".join([self.journey, *map(str, self.faults)])

    @classmethod
    def parse(cls, words: list[str]) -> "FaultCase":
        """Return the case that these words of a line describe."""
        faults = (word.partition("@") for word in words[1:])
        return cls(words[0], tuple(PlannedFault(kind, int(at)) for kind, _, at in faults))


@dataclass
class FinishedRun:
    """A run that has ended, with the names of its port calls."""

    world: World
    calls: list[str]


def run(case: FaultCase) -> FinishedRun:
    """Run the journey with the faults to its end."""
    journey = ALL[case.journey]
    wrong = {fault.at: INJECTIONS[fault.kind] for fault in case.faults}
    calls: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        calls.append(name)
        act = wrong.get(len(calls))
        return call() if act is None else act(FaultedCall(world, name, call))

    world = journey.world(watch)
    journey.run(world)
    return FinishedRun(world, calls)


@cache
def run_without_faults(journey: str) -> FinishedRun:
    """Return the journey's run without a fault."""
    return run(FaultCase(journey, ()))


def find_failure(case: FaultCase) -> str | None:
    """Return a line that replays the case with the error of its outcome, or None if the outcome is right."""
    try:
        ran = run(case)
        assert len(ran.calls) >= case.faults[0].at, "the run has fewer port calls"
        same = assert_cut_off(case.journey) if case.journey in CUT_OFF else assert_same
        same(ran.world, run_without_faults(case.journey).world, "")
    except AssertionError as error:
        message = (str(error).splitlines() or ["?"])[0][:200]
        return f"python -m tests.faults.enumerated {case}  # {message}"
    return None


def single_faults(journey: str) -> Iterator[FaultCase]:
    """Yield a case for each kind of fault at every port call of the journey."""
    for at in range(1, len(run_without_faults(journey).calls) + 1):
        yield from (FaultCase(journey, (PlannedFault(kind, at),)) for kind in INJECTIONS)


def fault_pairs(journey: str, distances: tuple[int, ...]) -> Iterator[FaultCase]:
    """Yield cases of two faults at these distances in port calls, so that the second one hits the recovery."""
    kinds = list(INJECTIONS)
    for case in single_faults(journey):
        first = case.faults[0]
        for distance in distances:
            second = kinds[(kinds.index(first.kind) + first.at + distance) % len(kinds)]
            yield replace(case, faults=(first, PlannedFault(second, first.at + distance)))


if __name__ == "__main__":
    found = find_failure(FaultCase.parse(sys.argv[1:]))
    print(found or "the outcome is right")
    sys.exit(found is not None)
