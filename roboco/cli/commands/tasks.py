"""roboco tasks: a table of the workspace's tasks."""

import sys
from contextlib import closing
from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.commands.task_summaries import TaskSummaries
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS, print_error
from roboco.cli.terminal.format import age, status_colour
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.errors import CorruptHistory, TransientError
from roboco.settings import load_settings


@click.command()
@options.as_json
def tasks(as_json: bool) -> int:
    """List the tasks of the workspace, oldest first.

    If the files of a task are broken, the list leaves it out, an error says why, and the exit code is 1.
    """
    with closing(Orchestrator(load_settings())) as orchestrator:
        listed = TaskSummaries(orchestrator)
        summaries = list(listed)
        warnings = [listed.stale] if listed.stale else _missing_workers(orchestrator, summaries)
    if as_json:
        print_json(summaries)
    else:
        Screen(sys.stdout).table(_table(summaries, datetime.now(UTC)))
    for warning in warnings:
        click.echo(warning, err=True)
    for broken in listed.broken:
        print_error(CorruptHistory.code, broken, as_json)
    return FAILED if listed.broken else SUCCESS


def _missing_workers(orchestrator: Orchestrator, summaries: list[TaskSummary]) -> list[str]:
    """Return a warning for each pool without a live worker, if a task may wait for one."""
    if not any(summary.status in (TaskStatus.QUEUED, TaskStatus.RUNNING) for summary in summaries):
        return []
    try:
        return orchestrator.missing_workers()
    except TransientError as error:
        return [f"live workers are not known: {error}"]


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
            Text(summary.status, status_colour(summary.status)),
            Text(str(summary.steps)),
            Text(str(summary.tokens_in)),
            Text(str(summary.tokens_out)),
            Text(age((now - summary.created_at).total_seconds())),
        )
    return table
