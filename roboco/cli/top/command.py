"""roboco top: tasks, workers, queues and rates, live."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import click
from rich.console import Console
from rich.live import Live

from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.cli.top.sampler import Sampler
from roboco.cli.top.snapshot import TopSnapshot
from roboco.cli.top.view import TopView
from roboco.client.orchestrator import Orchestrator
from roboco.domain.url import strip_credentials
from roboco.settings import load_settings

END_KEYS = frozenset("qQ\x1b\x03\x04")
"""The keys that end it: q, Escape, and Ctrl-C and Ctrl-D where a terminal sends them as characters."""
POLL_INTERVAL = 0.1
"""Seconds between two checks for a key."""


@click.command()
@click.option("--once", is_flag=True, help="Print one snapshot and end, as without a terminal.")
@click.option(
    "--tasks", "most", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most tasks to show."
)
@click.option("--every", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, metavar="SECONDS")
@options.as_json
def top(once: bool, most: int, every: float, as_json: bool) -> None:
    """Watch tasks, workers, queues and rates.

    It reads only the tasks that it shows, those with running work first.
    """
    settings = load_settings()
    with ExitStack() as opened:
        orchestrator = opened.enter_context(Orchestrator(settings))
        sampler = opened.enter_context(closing(Sampler(orchestrator)))
        where = strip_credentials(settings.redis_url)
        if as_json or once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            _print(sampler.sample(most), where, as_json)
        else:
            _watch(lambda lines: sampler.sample(min(most, lines)), where, every)


def _print(snapshot: TopSnapshot, address: str, as_json: bool) -> None:
    if as_json:
        print_json(snapshot.record())
        return
    Screen(sys.stdout).table(TopView(snapshot, address, None))


def _watch(sample: Callable[[int], TopSnapshot], address: str, every: float) -> None:
    fixed = ("COLUMNS", "LINES")  # they keep the size at the start; the terminal may be resized
    variables = {name: value for name, value in os.environ.items() if name not in fixed}
    console = Console(highlight=False, markup=False, emoji=False, _environ=variables)
    with _raw_keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        snapshot, due, size = sample(console.size.height), time.monotonic() + every, None
        while True:
            if console.size != size:  # the terminal was resized, or the snapshot is new
                size = console.size
                live.update(TopView(snapshot, address, size.height), refresh=True)
            if pressed(POLL_INTERVAL):
                return
            if time.monotonic() >= due:
                snapshot, due, size = sample(console.size.height), time.monotonic() + every, None


@contextmanager
def _raw_keys() -> Iterator[Callable[[float], bool]]:
    """Read keys one by one, without an echo. The function returns True if a key was pressed that ends the command."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)

    def pressed(seconds: float) -> bool:
        if not select.select([keys], [], [], seconds)[0]:
            return False
        typed = os.read(keys, 64).decode(errors="replace")
        return typed == "" or (typed[0] in END_KEYS and (len(typed) == 1 or typed[0] != "\x1b"))

    try:
        tty.setcbreak(keys)
        yield pressed
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
