"""bulk_option: make the control of one task a control of all tasks that meet conditions, too.

TASK_ID ─► the command as it is
conditions, or --all ─► count ─► confirmation ─► page, page, ... ─► totals, exit code
                                 (no: nothing)   (Ctrl-C, silent server: how to resume)
"""

import functools
import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import click

from roboco.cli.bulk.task_conditions import NAMES, filter_options, task_conditions
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS, print_error
from roboco.cli.terminal.format import counted
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.client.operator.bulk import PAGE_SIZE, Bulk
from roboco.client.operator.bulk_control import DECISIONS, ControlName
from roboco.client.operator.bulk_report import BulkOutcome, BulkPage
from roboco.client.orchestrator import Orchestrator

MAX_FAILED_IDS: Final = 10_000
"""Failed tasks whose ids are kept, so that one that fails again, or succeeds later, is counted once."""
_OWN_NAMES: Final = ("every", "yes", "rate", "bulk_id", "cursor")
_OPTIONS: Final = (
    click.option("--all", "every", is_flag=True, help="Control all tasks that the control may concern."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option(
        "--rate",
        metavar="NUMBER",
        type=click.FloatRange(min=0, max=1000, min_open=True),
        default=50,
        show_default=True,
        help="Tasks a second, at most.",
    ),
    click.option("--bulk-id", metavar="ID", help="The id of the run: one with the same id controls no task twice."),
    click.option("--cursor", metavar="CURSOR", default="", help="Resume a run at the cursor that it printed."),
)
_Content = Callable[[dict[str, Any]], dict[str, Any]]


def _no_content(_: dict[str, Any]) -> dict[str, Any]:
    return {}


def bulk_option(
    name: ControlName, content: _Content = _no_content, team_option: str = "--team"
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of a command of one task. `content` returns options of the bulk control from its parameters.

    Place it above the other options. It adds the argument TASK_ID, which may be left out. `team_option` is the name of
    the condition on the team, if the command has another option `--team`.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def control(**given: Any) -> Any:
            conditions = {key: given.pop(key) for key in NAMES}
            own = {key: given.pop(key) for key in _OWN_NAMES}
            is_bulk = own["every"] or any(value not in (None, (), False) for value in conditions.values())
            if (given["task_id"] is None) != is_bulk or (not is_bulk and conditions["what_if"] is not None):
                hint = "; --message TEXT is a message for many tasks" if name == "send" else ""
                raise click.UsageError(f"name one task, or conditions such as --tenant; --all controls all tasks{hint}")
            if not is_bulk:
                return command(**given)
            options = {**filter_options(conditions), **content(given), "all_tasks": own["every"], "rate": own["rate"]}
            request = _BulkCommand(name, options, own["bulk_id"], own["cursor"], own["yes"], given["as_json"])
            return _run_bulk(request)

        decorated = task_conditions(control, team_option)
        for option in reversed(_OPTIONS):
            decorated = option(decorated)
        return click.argument("task_id", required=False)(decorated)

    return decorate


@dataclass(frozen=True)
class _BulkCommand:
    """A bulk control as a command line asks for it."""

    name: ControlName
    options: Any
    bulk_id: str | None
    cursor: str
    yes: bool
    as_json: bool


@dataclass
class _Totals:
    """The outcomes so far."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
    calls: int = 0
    complete: bool = True

    def add(self, page: BulkPage) -> None:
        """Count the outcomes of a page. The last outcome of a task counts."""
        self.complete = self.complete and page.complete
        for one in page.outcomes:
            if one.task_id in self.failed:
                self.counts["failed"] -= 1
                self.failed.discard(one.task_id)
            if one.outcome == "failed" and len(self.failed) < MAX_FAILED_IDS:
                self.failed.add(one.task_id)
            self.counts[one.outcome] += 1
            self.calls += len(one.calls) if one.outcome != "repeated" else 0

    def as_dict(self) -> dict[str, int]:
        """Return the number of tasks for each outcome."""
        return {name: self.counts[name] for name in ("accepted", "repeated", "ended", "failed")}


def _run_bulk(request: _BulkCommand) -> int:
    """Run the bulk control and print its totals. Return the exit code: 1 if a task has failed."""
    with closing(Orchestrator(caller_settings())) as orchestrator:
        bulk = orchestrator.bulk(request.name, bulk_id=request.bulk_id, **request.options)
        found = _print_count(request, bulk)
        if not request.yes:
            _confirm(request.name, found.text)
        cursor = request.cursor or found.start
        click.echo(f"resume this run after a crash with the same options and --cursor {cursor}", err=True)
        totals = _run(request, bulk, found.tasks, cursor)
    if request.as_json:
        calls = {"calls": totals.calls} if request.name in DECISIONS else {}
        click.echo(json.dumps({"bulk_id": bulk.bulk_id, **totals.as_dict(), **calls, "complete": totals.complete}))
    else:
        calls_text = f"; {counted(totals.calls, 'call')}" if request.name in DECISIONS else ""
        counts = ", ".join(f"{count} {name}" for name, count in totals.as_dict().items())
        click.echo(f"{request.name}: {counts}{calls_text}")
    if not totals.complete:
        message = "tasks may be left, as while coordinators rebuild the task index: repeat the command with --bulk-id"
        click.echo(f"{message} {bulk.bulk_id} later", err=True)
    return FAILED if totals.counts["failed"] or not totals.complete else SUCCESS


@dataclass(frozen=True)
class _Found:
    """The tasks, and calls, that the control will reach."""

    text: str
    tasks: str
    start: str
    """The cursor of the first page."""


def _print_count(request: _BulkCommand, bulk: Bulk) -> _Found:
    """Print and return what the control will reach: of a decision all calls, since a person confirms them."""
    if request.name not in DECISIONS:
        count = bulk.count(request.cursor)
        tasks_found = f"{'at least ' if count.cursor else ''}{counted(count.matching, 'task')}"
        click.echo(f"{request.name}: {tasks_found}", err=True)
        return _Found(tasks_found, tasks_found, count.start)
    tools, tasks, unreadable, cursor = Counter[tuple[str, str]](), 0, 0, request.cursor
    while True:
        count = bulk.count(cursor)
        tasks, unreadable = tasks + count.matching, unreadable + count.unreadable
        for one in count.tools:
            tools[one.tool, one.effect] += one.calls
        if not (cursor := count.cursor):
            break
    found = _Found(f"{counted(tools.total(), 'call')} of {counted(tasks, 'task')}", counted(tasks, "task"), count.start)
    click.echo(f"{request.name}: {found.text}", err=True)
    for (tool, effect), calls in sorted(tools.items()):
        click.echo(f"  {escape_invisible(tool)} ({effect}): {counted(calls, 'call')}", err=True)
    if unreadable:
        click.echo(f"  the calls of {counted(unreadable, 'further task')} cannot be read", err=True)
    return found


def _confirm(name: str, matching: str) -> None:
    """Raise UsageError without a terminal, and Abort unless the user confirms."""
    if not _is_terminal():
        raise click.UsageError("this command asks for confirmation on a terminal: use --yes in scripts")
    click.confirm(f"{name} {matching}?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _run(request: _BulkCommand, bulk: Bulk, tasks: str, cursor: str) -> _Totals:
    """Control page after page, and print failures. However it is aborted, print how it is resumed."""
    totals = _Totals()
    try:
        for page in bulk.pages(cursor, PAGE_SIZE):
            totals.add(page)
            for one in page.outcomes:
                _print_outcome(one, request.as_json)
            cursor = page.cursor or cursor
            if page.cursor and page.outcomes:
                click.echo(f"{request.name}: {totals.counts.total()} of {tasks}", err=True)
    except BaseException:
        done = f"aborted after {counted(totals.counts.total(), 'task')}"
        click.echo(f"{done}; resume with the same options and --cursor {cursor}", err=True)
        raise
    return totals


def _print_outcome(one: BulkOutcome, as_json: bool) -> None:
    if as_json:
        click.echo(one.model_dump_json())
    elif one.new_task_id and one.outcome != "failed":
        click.echo(f"{one.task_id} {one.new_task_id}")
    elif one.outcome == "failed":
        print_error(one.code, f"{one.task_id}: {escape_invisible(one.cause)}", as_json)
