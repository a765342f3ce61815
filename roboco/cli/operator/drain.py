"""roboco drain: a worker takes no new work, ends with the work that it has, and exits."""

import time
from typing import Final

import click

from roboco.cli.operator.workers import state_of
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.client.operator.operations import WorkerReport
from roboco.client.orchestrator import Orchestrator

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the worker's registration."""
START_TIMEOUT: Final = 20.0
"""Seconds within which the worker registers that it drains."""


@click.command()
@click.argument("worker", metavar="WORKER")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, max=86_400),
    help="How long its work may take to end; by default its ROBOCO_DRAIN_TIMEOUT. Then other workers continue it.",
)
@options.as_json
def drain(worker: str, timeout: float | None, as_json: bool) -> int:
    """Let a worker end with the work that it has, and exit.

    WORKER is a name that `roboco workers` lists. The worker takes no new work. Turns and calls that do not end in time
    are handed over to other workers; calls of irreversible tools run to their end. The command shows the progress until
    the worker has ended. If a supervisor runs the worker, it starts another one. Ctrl-C ends the command alone.
    """
    with Orchestrator(caller_settings()) as orchestrator:
        last = orchestrator.operator.drain_worker(worker, timeout)
        error = _follow(orchestrator, last, shows=not as_json)
    if as_json:
        print_json({"worker": worker, "drained": not error, "error": error or None})
    else:
        click.echo(error or f"{worker} is drained and has ended", err=bool(error))
    return FAILED if error else SUCCESS


def _follow(orchestrator: Orchestrator, last: WorkerReport, shows: bool) -> str:
    """Wait until the worker has ended, and print its progress. Return "", or why it is not known to be drained."""
    asked_at, shown = time.monotonic(), ""
    while True:
        found = orchestrator.operator.operations.worker(last.name)
        if found is None:
            return ""
        if not found.alive:
            return (
                f"{last.name} is silent for {found.silent_for:.0f} s and may have been killed; its work continues on "
                "other workers once its leases have expired"
            )
        if not found.draining and time.monotonic() - asked_at > START_TIMEOUT:
            return f"{last.name} has not begun to drain within {START_TIMEOUT:.0f} s; it may have been restarted"
        line = f"{state_of(found)}, turns and calls: {found.active}"
        if shows and line != shown:
            click.echo(line)
            shown = line
        time.sleep(POLL_INTERVAL)
