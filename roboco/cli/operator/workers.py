"""roboco workers: the workers as they registered last, and what each of them runs."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import click
from rich.text import Text

from roboco.cli.terminal import options
from roboco.cli.terminal.format import age
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import text_table
from roboco.client.operator.operations import MAX_WORKERS, RunningWork, WorkerReport
from roboco.client.orchestrator import Orchestrator
from roboco.settings import load_settings


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_WORKERS),
    default=200,
    show_default=True,
    help="Workers of each pool at most, the last registration first.",
)
@options.as_json
def workers(limit: int, as_json: bool) -> None:
    """List the workers, and what each of them runs.

    Workers register every three seconds. A worker that has ended in order is not listed; one that was killed is, for a
    day. No worker is asked, so that one that hangs delays nothing.
    """
    with Orchestrator(load_settings()) as orchestrator:
        report = orchestrator.operator.operations.workers(limit)
    if as_json:
        print_json(report)
        return
    if not report.workers:
        click.echo("no workers; start one for all pools: celery -A roboco.workers.app worker")
        return
    rows = (row for one in report.workers for row in _rows(one))
    Screen(sys.stdout).table(text_table(("worker", "pools", "state", "version", "runs", "since"), rows))


def state_of(worker: WorkerReport) -> str:
    """Return the state of a worker in a few words."""
    if not worker.alive:
        return f"silent for {age(worker.silent_for)}"
    if not worker.draining:
        return "running"
    left = max(0.0, (worker.drains_for or 0.0) - worker.silent_for)
    return f"draining, {left:.0f} s left" if left else "draining, hands over"


def _rows(worker: WorkerReport) -> Iterator[tuple[str | Text, ...]]:
    """Yield the worker with its first work, and a row for each other one."""
    colour = "red" if not worker.alive else "yellow" if worker.draining else "green"
    state = Text(state_of(worker), colour)
    facts: tuple[str | Text, ...] = one_line(worker.name, 80), " ".join(worker.pools), state, worker.version
    works = [_work_cells(work) for work in worker.held] or [(Text("nothing", "dim"), "")]
    if (unlisted := worker.active - len(worker.held)) > 0:
        works.append((f"and {unlisted} more", ""))
    for work in works:
        yield *facts, *work
        facts = "", "", "", ""


def _work_cells(work: RunningWork) -> tuple[str | Text, str]:
    since = "" if work.since is None else age((datetime.now(UTC) - work.since).total_seconds())
    return one_line(work.id, 160), since
