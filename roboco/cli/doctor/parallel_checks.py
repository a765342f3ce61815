"""Groups of checks that run in parallel, each in a thread; their results are yielded in the order of the groups."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from roboco.cli.doctor.check import CheckResult

_PROGRESS_INTERVAL: Final = 0.2
"""Seconds between two reports of the groups that still run."""


@dataclass(frozen=True)
class CheckGroup:
    """Checks that run one after another, in parallel with those of other groups."""

    name: str
    checks: Callable[[], Iterable[CheckResult]]
    in_caller_thread: bool = False
    """True if they run in the caller's thread, in the order of the groups: they import modules of users."""
    results: "SimpleQueue[CheckResult | None]" = field(default_factory=SimpleQueue, compare=False)
    """Their results so far, and None after the last of them."""

    def run(self) -> None:
        """Run the checks. If a check raises, its error is the last result of the group."""
        try:
            for check in self.checks():
                self.results.put(check)
        except Exception as error:  # a check must not hide the others' results
            todo = "see whether the other findings explain it; otherwise report it as a bug of Roboco"
            self.results.put(
                CheckResult(self.name, "fail", f"this check failed: {type(error).__name__}: {error}", todo)
            )
        self.results.put(None)


def run_parallel(
    groups: Sequence[CheckGroup], seconds: float, note: Callable[[Sequence[str]], None] = lambda names: None
) -> Iterator[CheckResult]:
    """Yield the results of all groups. They share a limit of `seconds`: a group that takes longer fails.

    While a group runs, `note` gets the names of all that run. A thread that still runs afterwards does not keep the
    process alive, unless it runs a ThreadPoolExecutor: so checks start daemon threads instead.
    """
    until = time.monotonic() + seconds
    threads = {group.name: _start_thread(group) for group in groups if not group.in_caller_thread}
    for group in groups:
        if group.in_caller_thread:
            group.run()
        while True:
            try:
                found = group.results.get(timeout=min(_PROGRESS_INTERVAL, max(0.0, until - time.monotonic())))
            except Empty:
                if time.monotonic() < until:
                    note([name for name, thread in threads.items() if thread.is_alive()])
                    continue
                todo = "see the other findings: its server may be far away or hang; or give more time: --timeout"
                found = CheckResult(group.name, "fail", f"not done after {seconds:g} s", todo)
                yield found
                break
            if found is None:
                break
            yield found


def _start_thread(group: CheckGroup) -> threading.Thread:
    thread = threading.Thread(target=group.run, name=f"check-{group.name}", daemon=True)
    thread.start()
    return thread
