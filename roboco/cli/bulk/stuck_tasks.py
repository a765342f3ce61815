"""stuck_tasks: the table of the tasks that should progress and do not."""

import sys

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.exit import SUCCESS
from roboco.cli.terminal.format import age, status_colour
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import plain_table
from roboco.client.operator.stuck import StuckTask
from roboco.client.options import TaskFilterOptions
from roboco.client.orchestrator import Orchestrator
from roboco.settings import load_settings

MAX_CAUSE_CHARS = 600


def list_stuck_tasks(filters: TaskFilterOptions, limit: int, cursor: str, as_json: bool) -> int:
    """Print at least `limit` stuck tasks, if there are as many: pages are read until then. Return the exit code."""
    found: list[StuckTask] = []
    complete = True
    with Orchestrator(load_settings()) as orchestrator:
        while True:
            page = orchestrator.operator.operations.stuck(cursor=cursor, **filters)
            found += page.tasks
            cursor, complete = page.cursor, complete and page.complete
            if not cursor or len(found) >= limit:
                break
    if as_json:
        print_json({"tasks": found, "cursor": cursor, "complete": complete})
        return SUCCESS
    if found:
        Screen(sys.stdout).table(_table(found))
    else:
        click.echo("no stuck tasks")
    if cursor:
        click.echo(f"more: --stuck --cursor {cursor}", err=True)
    if not complete:
        click.echo("tasks may be missing: coordinators rebuild the task index from the workspace", err=True)
    return SUCCESS


def _table(found: list[StuckTask]) -> Table:
    table = plain_table("task", "team", "status", ">stuck for", "cause")
    for one in found:
        table.add_row(
            Text(one.task_id),
            Text(one_line(one.team, 64)),
            Text(one.status, status_colour(one.status)),
            Text(age(one.stuck_for)),
            Text(f"{one.kind}: {one_line(one.cause, MAX_CAUSE_CHARS)}"),
        )
    return table
