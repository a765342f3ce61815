"""Abreast: groups of checks run at the same time, each in a thread, and their results come in the groups' order."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from roboco.cli.doctor.check import Check

_TICK = 0.2
"""Seconds between two notes of the groups that still run."""


@dataclass(frozen=True)
class Group:
    """Checks that run one after another, beside those of other groups."""

    name: str
    checks: Callable[[], Iterable[Check]]
    here: bool = False
    """Whether they run in the caller's thread, when their turn comes: they import modules of users."""
    results: "SimpleQueue[Check | None]" = field(default_factory=SimpleQueue, compare=False)
    """What they have found so far, and None after the last of them."""

    def run(self) -> None:
        """Make the checks; one that fails itself is a result as well, and the last one of its group."""
        try:
            for check in self.checks():
                self.results.put(check)
        except Exception as error:  # a check must not hide the others' results
            todo = "see whether the other findings explain it; else report it as a mistake of Roboco's"
            self.results.put(Check(self.name, "fail", f"this check failed: {type(error).__name__}: {error}", todo))
        self.results.put(None)


def abreast(
    groups: Sequence[Group], seconds: float, note: Callable[[Sequence[str]], None] = lambda names: None
) -> Iterator[Check]:
    """Yield the results of all groups, which have so many seconds together; what takes longer fails.

    While a group takes its time, `note` gets the names of those that run. A thread that is still at work afterwards
    does not keep the process from ending, unless it runs a ThreadPoolExecutor: checks start daemon threads instead.
    """
    until = time.monotonic() + seconds
    threads = {group.name: _begun(group) for group in groups if not group.here}
    for group in groups:
        if group.here:
            group.run()
        while True:
            try:
                found = group.results.get(timeout=min(_TICK, max(0.0, until - time.monotonic())))
            except Empty:
                if time.monotonic() < until:
                    note([name for name, thread in threads.items() if thread.is_alive()])
                    continue
                todo = "see the other findings: its server may be far away or hang; or give more time: --timeout"
                found = Check(group.name, "fail", f"not done after {seconds:g} s", todo)
                yield found
                break
            if found is None:
                break
            yield found


def _begun(group: Group) -> threading.Thread:
    thread = threading.Thread(target=group.run, name=f"check-{group.name}", daemon=True)
    thread.start()
    return thread
