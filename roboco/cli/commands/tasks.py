"""roboco tasks: a table of tasks, from the task index."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.bulk.task_conditions import filter_options, task_conditions
from roboco.cli.interactive.next_command import BY_STATUS
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS, print_error
from roboco.cli.terminal.format import age, plain_reason, status_colour
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import text_table
from roboco.client.operator.operations import StuckTask
from roboco.client.options import TaskFilterOptions
from roboco.client.orchestrator import Orchestrator
from roboco.client.stored_tasks import StoredTasks
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import MAX_REASON_CHARS, TaskEntry
from roboco.errors import CorruptHistory, Forbidden, TransientError
from roboco.settings import load_settings

MAX_CAUSE_CHARS = 600
MAX_COMMANDS = 5
"""Waiting tasks for which a command is printed."""
MAX_TITLE_CHARS = 60
"""Characters of a title in the table."""


@click.command()
@task_conditions
@click.option("--stuck", is_flag=True, help="List tasks that should progress and do not, with the cause.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most tasks to list.")
@click.option("--cursor", metavar="CURSOR", default="", help="Continue after the page that printed this cursor.")
@options.as_json
def tasks(stuck: bool, limit: int, cursor: str, as_json: bool, **conditions: Any) -> int:
    """List tasks by status, tenant, team, time and title.

    The latest change of a status is first. The reason is why a task waits, has failed or was stopped. "running, asks"
    is a task that runs, while a person or client is asked for one of its calls, or in a sub-task. Ended tasks leave the
    list after ROBOCO_INDEX_RETENTION days; the workspace keeps them. Steps and tokens are those at the last change.
    While Redis does not answer, the command reads all tasks of the workspace instead.

    With --stuck, --older is the time without progress, by default twice that after which the work of a lost worker is
    sent again; the command reads pages until it has found --limit tasks.
    """
    filters = filter_options(conditions)
    if stuck:
        return _list_stuck_tasks(filters, limit, cursor, as_json)
    broken: list[str] = []
    with Orchestrator(load_settings()) as orchestrator:
        try:
            page = orchestrator.task_page(limit=limit, cursor=cursor, **filters)
            found: Sequence[TaskEntry] = orchestrator.with_current_reasons(page.entries)
        except TransientError as error:
            if cursor:
                raise
            stored = StoredTasks(orchestrator, filters)
            found = stored.newest(limit)
            following, complete, broken = "", True, stored.broken
            warnings = [f"{error}; tasks are shown as the workspace has them"]
        else:
            following, complete = page.cursor, page.complete
            rebuilt = "tasks may be missing: coordinators rebuild the task index from the workspace"
            warnings = [] if complete else [f"{rebuilt}, {page.tasks_read} tasks are read so far"]
            warnings += _causes(orchestrator, found)
    _print(found, following, complete, as_json)
    waiting = [entry for entry in found if entry.status.waiting][:MAX_COMMANDS]
    if waiting and not as_json:
        warnings += ["to continue:", *(f"  {BY_STATUS[one.status].format(task=one.task_id)}" for one in waiting)]
    for warning in warnings:
        click.echo(warning, err=True)
    for message in broken:
        print_error(CorruptHistory.code, message, as_json)
    return FAILED if broken else SUCCESS


def _print(found: Sequence[TaskEntry], following: str, complete: bool, as_json: bool) -> None:
    if as_json:
        print_json({"tasks": found, "cursor": following, "complete": complete})
        return
    Screen(sys.stdout).table(_table(found, datetime.now(UTC)))
    if following:
        click.echo(f"more: --cursor {following}", err=True)


def _causes(orchestrator: Orchestrator, found: Sequence[TaskEntry]) -> list[str]:
    """Return the pools without a live worker, and the switches that are off, if a task may wait for them."""
    if not any(entry.status in (TaskStatus.QUEUED, TaskStatus.RUNNING) for entry in found):
        return []
    try:
        causes = orchestrator.missing_workers()
    except TransientError as error:
        causes = [f"live workers are not known: {error}"]
    try:
        return causes + [switch.cause for switch in orchestrator.operator.switches()]
    except Forbidden:  # a tenant's client
        return causes
    except TransientError as error:
        return [*causes, f"whether something is switched off is not known: {error}"]


def _table(found: Sequence[TaskEntry], now: datetime) -> Table:
    headings = ("task", "team", "status", ">steps", ">tokens in", ">out", ">age", ">changed", "…title", "…reason")
    shown = headings if any(entry.reason for entry in found) else headings[:-1]
    return text_table(shown, ([*_cells(entry, now)][: len(shown)] for entry in found))


def _cells(entry: TaskEntry, now: datetime) -> Iterator[str | Text]:
    asks = ", asks" if entry.waits else ""
    yield from (entry.task_id, one_line(entry.team, 64))
    yield Text(f"{entry.status}{asks}", status_colour(TaskStatus.APPROVAL if asks else entry.status))
    yield from map(str, (entry.steps, entry.tokens_in, entry.tokens_out))
    yield from (age((now - time).total_seconds()) for time in (entry.created_at, entry.updated_at))
    yield from (one_line(entry.title, MAX_TITLE_CHARS), one_line(plain_reason(entry.reason), MAX_REASON_CHARS))


def _list_stuck_tasks(filters: TaskFilterOptions, limit: int, cursor: str, as_json: bool) -> int:
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
        Screen(sys.stdout).table(
            text_table(("task", "team", "status", ">stuck for", "cause"), map(_stuck_cells, found))
        )
    else:
        click.echo("no stuck tasks")
    if cursor:
        click.echo(f"more: --stuck --cursor {cursor}", err=True)
    if not complete:
        click.echo("tasks may be missing: coordinators rebuild the task index from the workspace", err=True)
    return SUCCESS


def _stuck_cells(one: StuckTask) -> tuple[str | Text, ...]:
    status, cause = Text(one.status, status_colour(one.status)), f"{one.kind}: {one_line(one.cause, MAX_CAUSE_CHARS)}"
    return one.task_id, one_line(one.team, 64), status, age(one.stuck_for), Text(cause)
