"""bulk_option: make the control of one task a control of all tasks that meet conditions, too.

TASK_ID ─► the command as it is
conditions, or --all ─► count ─► confirmation ─► task, task, ... ─► totals, exit code
                                 (no: nothing)   (Ctrl-C, silent server: how to repeat it)
"""

import functools
import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import click

from roboco.cli.bulk.task_conditions import NAMES, filter_options, task_conditions
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS, print_error
from roboco.cli.terminal.format import counted
from roboco.cli.terminal.progress import progress
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.client.operator.bulk import PAGE_SIZE, Bulk
from roboco.client.operator.bulk_control import DECISIONS, BulkCounts, BulkOutcome, ControlName
from roboco.client.orchestrator import Orchestrator

_OWN_NAMES: Final = ("every", "yes", "rate", "bulk_id")
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
)
_Content = Callable[[dict[str, Any]], dict[str, Any]]


def bulk_option(
    name: ControlName, content: _Content = lambda _: {}, team_option: str = "--team"
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
            return _run_bulk(name, options, own, given["as_json"])

        decorated = task_conditions(control, team_option)
        for option in reversed(_OPTIONS):
            decorated = option(decorated)
        return click.argument("task_id", required=False)(decorated)

    return decorate


def _run_bulk(name: ControlName, options: Any, own: dict[str, Any], as_json: bool) -> int:
    """Run the bulk control and print its totals. Return the exit code: 1 if a task has failed, or may be left."""
    totals, calls, complete = Counter[str](), 0, True
    with Orchestrator(caller_settings()) as orchestrator:
        bulk = orchestrator.bulk(name, bulk_id=own["bulk_id"], **options)
        found, matching = _print_count(name, bulk)
        if not own["yes"]:
            confirm(f"{name} {found}?")
        resume = f"resume with the same options, --bulk-id {bulk.bulk_id} and --until {bulk.until.isoformat()}"
        click.echo(f"after a crash {resume}", err=True)
        try:
            with progress(f"{name}: tasks", matching) as show:
                for page in bulk.pages(PAGE_SIZE):
                    complete = page.complete
                    for one in page.outcomes:
                        totals[one.outcome] += 1
                        calls += len(one.calls) if one.outcome != "repeated" else 0
                        _print_outcome(one, as_json)
                    show(totals.total())
        except BaseException:
            click.echo(f"aborted after {counted(totals.total(), 'task')}; {resume}", err=True)
            raise
    counts = BulkCounts.model_validate({outcome: totals[outcome] for outcome in BulkCounts.model_fields})
    if as_json:
        of_calls = {"calls": calls} if name in DECISIONS else {}
        click.echo(json.dumps({"bulk_id": bulk.bulk_id, **dict(counts), **of_calls, "complete": complete}))
    else:
        calls_text = f"; {counted(calls, 'call')}" if name in DECISIONS else ""
        click.echo(f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in counts)}{calls_text}")
    if not complete:
        message = "tasks may be left, as while coordinators rebuild the task index: repeat the command with --bulk-id"
        click.echo(f"{message} {bulk.bulk_id} later", err=True)
    return FAILED if counts.failed or not complete else SUCCESS


def _print_count(name: ControlName, bulk: Bulk) -> tuple[str, int]:
    """Print how many tasks the control will reach, and of a decision all calls, since a person confirms them.

    Return that as text, and the number of the tasks.
    """
    parts = [bulk.count()]
    while parts[-1].cursor:
        parts.append(bulk.count(parts[-1].cursor))
    matching, unreadable = sum(part.matching or 0 for part in parts), sum(part.unreadable for part in parts)
    tools = Counter[tuple[str, str]]()
    for one in (tool for part in parts for tool in part.tools):
        tools[one.tool, one.effect] += one.calls
    tasks = counted(matching, "task")
    found = f"{counted(tools.total(), 'call')} of {tasks}" if name in DECISIONS else tasks
    click.echo(f"{name}: {found}", err=True)
    for (tool, effect), calls in sorted(tools.items()):
        click.echo(f"  {escape_invisible(tool)} ({effect}): {counted(calls, 'call')}", err=True)
    if unreadable:
        click.echo(f"  the calls of {counted(unreadable, 'further task')} cannot be read", err=True)
    return found, matching


def confirm(question: str) -> None:
    """Raise UsageError without a terminal, and Abort unless the user confirms."""
    if not _is_terminal():
        raise click.UsageError("this command asks for confirmation on a terminal: use --yes in scripts")
    click.confirm(question, abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _print_outcome(one: BulkOutcome, as_json: bool) -> None:
    if as_json:
        click.echo(one.model_dump_json())
    elif one.outcome == "failed":
        print_error(one.code, f"{one.task_id}: {escape_invisible(one.cause)}", as_json)
    elif one.new_task_id:
        click.echo(f"{one.task_id} {one.new_task_id}")
