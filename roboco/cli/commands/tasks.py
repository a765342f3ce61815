"""roboco tasks: a table of the workspace's tasks."""

import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.commands.current_summary import stale_message
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


class TaskSummaries:
    """Summaries of tasks. Once Redis or the workspace does not answer, they are those that were read already."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self.stale = ""
        """Why the summaries are those of the workspace, or "" if they are current."""
        self.broken: list[str] = []
        """An error for each task that is left out, because neither its summary nor its history can be read."""

    def __iter__(self) -> Iterator[TaskSummary]:
        """Yield the summary of each task of the workspace, oldest first."""
        task_ids = self._orchestrator.task_ids()
        stored = [summary for task_id in task_ids if (summary := self._stored_or_none(task_id)) is not None]
        return map(self._current, sorted(stored, key=lambda summary: summary.created_at))

    def _current(self, stored: TaskSummary) -> TaskSummary:
        if self.stale or stored.status.ended:
            return stored
        try:
            return self._orchestrator.stored_task(stored.task_id).summary()
        except TransientError as error:
            self.stale = stale_message(error)
            return stored

    def _stored_or_none(self, task_id: str) -> TaskSummary | None:
        try:
            return self._orchestrator.stored_summary(task_id)
        except CorruptHistory as error:
            self.broken.append(str(error))
            return None


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
