"""Groups of checks that run in parallel, each in a thread; their results are yielded in the order of the groups."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from roboco.cli.doctor.check import Check

_PROGRESS_INTERVAL: Final = 0.2
"""Seconds between two reports of the groups that still run."""


@dataclass(frozen=True)
class Group:
    """Checks that run one after another, in parallel with those of other groups."""

    name: str
    checks: Callable[[], Iterable[Check]]
    here: bool = False
    """True if they run in the caller's thread, in the order of the groups: they import modules of users."""
    results: "SimpleQueue[Check | None]" = field(default_factory=SimpleQueue, compare=False)
    """Their results so far, and None after the last of them."""

    def run(self) -> None:
        """Run the checks. If a check raises, its error is the last result of the group."""
        try:
            for check in self.checks():
                self.results.put(check)
        except Exception as error:  # a check must not hide the others' results
            todo = "see whether the other findings explain it; otherwise report it as a bug of Roboco"
            self.results.put(Check(self.name, "fail", f"this check failed: {type(error).__name__}: {error}", todo))
        self.results.put(None)


def abreast(
    groups: Sequence[Group], seconds: float, note: Callable[[Sequence[str]], None] = lambda names: None
) -> Iterator[Check]:
    """Yield the results of all groups. They share a limit of `seconds`: a group that takes longer fails.

    While a group runs, `note` gets the names of all that run. A thread that still runs afterwards does not keep the
    process alive, unless it runs a ThreadPoolExecutor: so checks start daemon threads instead.
    """
    until = time.monotonic() + seconds
    threads = {group.name: _started(group) for group in groups if not group.here}
    for group in groups:
        if group.here:
            group.run()
        while True:
            try:
                found = group.results.get(timeout=min(_PROGRESS_INTERVAL, max(0.0, until - time.monotonic())))
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


def _started(group: Group) -> threading.Thread:
    thread = threading.Thread(target=group.run, name=f"check-{group.name}", daemon=True)
    thread.start()
    return thread
