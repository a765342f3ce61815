"""progress: a bar with the time left, on a terminal, for a command that takes longer than two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

QUIET_SECONDS: Final = 2.0
"""Seconds for which a command shows no bar."""


@contextmanager
def progress(
    title: str, total: int | None = None, amount: ProgressColumn | None = None
) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how much of the total is done. Lines that are printed meanwhile stay above the bar.

    `amount` shows the numbers in another way. If standard error is no terminal, nothing is shown.
    """
    numbers = amount or TextColumn("{task.completed}" if total is None else "{task.completed} of {task.total}")
    columns = (TextColumn("{task.description}"), BarColumn(), numbers, TimeRemainingColumn(elapsed_when_finished=True))
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        disable=not sys.stderr.isatty(),
    )
    shown, begins = bar.add_task(title, total=total), time.monotonic() + QUIET_SECONDS

    def show(done: int) -> None:
        bar.update(shown, completed=done)
        if not bar.live.is_started and time.monotonic() >= begins:
            bar.start()

    try:
        yield show
    finally:
        bar.stop()
