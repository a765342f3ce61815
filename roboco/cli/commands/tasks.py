"""roboco tasks: a table of the workspace's tasks."""

import json
import sys
from contextlib import closing
from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.commands.overview import Overview
from roboco.cli.terminal import options
from roboco.cli.terminal.format import age, colour
from roboco.cli.terminal.sanitize import escaped, one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.intake.unattended import missing_workers
from roboco.errors import TransientError
from roboco.settings import read_settings


@click.command()
@options.as_json
def tasks(as_json: bool) -> int:
    """List the tasks of the workspace, oldest first.

    The exit code is 1 if the files of a task are broken: it is not in the list, and an error says why.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        overview = Overview(orchestrator)
        summaries = list(overview)
        absent = _absent(orchestrator.engine, summaries) if not overview.stale else []
    if as_json:
        click.echo(json.dumps([summary.model_dump(mode="json") for summary in summaries], indent=2))
    else:
        Screen(sys.stdout).table(_table(summaries, datetime.now(UTC)))
    if overview.stale:
        click.echo(overview.stale, err=True)
    for missing in absent:
        click.echo(missing, err=True)
    for broken in overview.broken:
        click.echo(f"error: {escaped(broken)}", err=True)
    return 1 if overview.broken else 0


def _absent(engine: Engine, summaries: list[TaskSummary]) -> list[str]:
    """Return the pools without a live worker, if a task may wait for one."""
    if not any(summary.status in (TaskStatus.QUEUED, TaskStatus.RUNNING) for summary in summaries):
        return []
    try:
        return missing_workers(engine)
    except TransientError as error:
        return [f"whether workers live is not known: {error}"]


def _table(summaries: list[TaskSummary], now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("task", "team", "status"):
        table.add_column(heading, overflow="fold")
    for heading in ("steps", "tokens in", "out", "age"):
        table.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            Text(summary.task_id),
            Text(one_line(summary.team, 64)),
            Text(summary.status, colour(summary.status)),
            Text(str(summary.steps)),
            Text(str(summary.tokens_in)),
            Text(str(summary.tokens_out)),
            Text(age((now - summary.created_at).total_seconds())),
        )
    return table
