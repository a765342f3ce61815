"""roboco erase: erase one task, or all tasks that meet conditions, and print receipts."""

import sys
from collections.abc import Iterator
from typing import Any, cast

import click

from roboco.cli.bulk.bulk_option import confirm
from roboco.cli.bulk.task_conditions import filter_options, task_conditions
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.progress import progress
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.operator.task_removal import RemovalPage
from roboco.client.options import ErasureOptions, TaskFilterOptions
from roboco.client.orchestrator import Orchestrator
from roboco.domain.removal.erasure import ErasureReceipt


@click.command()
@click.argument("task_id", required=False)
@task_conditions
@click.option("--stop", is_flag=True, help="Stop open tasks first. Without it they are not erased.")
@click.option("--forks", type=click.Choice(["keep", "erase"]), help="Keep the forks of a task, or erase them, too.")
@click.option("--reason", default="", metavar="TEXT", help="Why; the receipt keeps it.")
@click.option("--rate", type=click.FloatRange(0.01, 1000), default=5.0, show_default=True, help="Tasks a second.")
@click.option("--dry-run", is_flag=True, help="List the tasks that meet the conditions, and erase none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--receipt", "shows_receipt", is_flag=True, help="Print the receipt of a task that was erased.")
@click.option("--rewrite", is_flag=True, help="Then let Redis rewrite its append-only file now.")
@options.timeout(30)
@options.as_json
def erase(task_id: str | None, timeout: float, as_json: bool, **given: Any) -> int:
    """Erase a task, or all tasks that meet conditions.

    Files, keys in Redis, entries of the index and dead letters are removed.

    Coordinators carry it out. A receipt remains, without content, and rejects whatever arrives late for the task. The
    exit code is 1 if the erasure is not complete after --timeout seconds, or if a task is refused. With conditions, the
    command asks before it begins, and waits for no task; after an abort, run it again.

    Redis' append-only file holds erased texts until its next rewrite. With --rewrite the command starts one: its user
    of Redis needs the right to bgrewriteaof.
    """
    conditions = {name: value for name, value in filter_options(given).items() if value not in (None, ())}
    filters = cast(TaskFilterOptions, conditions)
    if (task_id is None) == (not filters):
        raise click.UsageError("name a task, or conditions such as --tenant and --older")
    if given["shows_receipt"] and task_id is None:
        raise click.UsageError("--receipt shows the receipt of one task: name it, without conditions")
    chosen = ErasureOptions(reason=given["reason"], stop=given["stop"], forks=given["forks"] or "refuse")
    with Orchestrator(caller_settings()) as orchestrator:
        if task_id is None:
            code = _erase_many(orchestrator, filters, chosen, given, as_json)
            return _rewrite(orchestrator, True, code) if given["rewrite"] and not given["dry_run"] else code
        if given["shows_receipt"]:
            return _print_receipt(orchestrator.operator.erasure(task_id), as_json)
        if given["dry_run"]:
            raise click.UsageError("--dry-run lists tasks that meet conditions; roboco show TASK shows one task")
        if not given["yes"]:
            confirm(f"Erase task {task_id} for good?")
        code = _print_receipt(orchestrator.operator.erase(task_id, timeout=timeout, **chosen), as_json)
        return _rewrite(orchestrator, given["rewrite"], code)


def _rewrite(orchestrator: Orchestrator, wanted: bool, code: int) -> int:
    """Let Redis rewrite its append-only file, or say that it holds erased texts until then. Return the code."""
    if wanted:
        orchestrator.operator.rewrite_append_only_file()
    kept = "is being rewritten" if wanted else "holds erased texts until its next rewrite, which --rewrite starts"
    click.echo(f"Redis' append-only file {kept}", err=True)
    return code


def _erase_many(
    orchestrator: Orchestrator,
    filters: TaskFilterOptions,
    chosen: ErasureOptions,
    given: dict[str, Any],
    as_json: bool,
) -> int:
    """Count the tasks, ask, and request their erasure. Return the exit code."""
    found = 0
    for page in _pages(orchestrator, filters, chosen, given["rate"], dry_run=True):
        found += len(page.tasks)
        if given["dry_run"]:
            _print_page(page, as_json)
    if given["dry_run"] or not found:
        click.echo(f"{found} tasks meet the conditions", err=as_json)
        return SUCCESS
    if not given["yes"]:
        confirm(f"Erase {found} tasks for good?")
    refused = accepted = 0
    with progress("erasing tasks", found) as show:
        for page in _pages(orchestrator, filters, chosen, given["rate"], dry_run=False):
            _print_page(page, as_json)
            refused += sum(one.outcome == "refused" for one in page.tasks)
            accepted += sum(one.outcome != "refused" for one in page.tasks)
            show(refused + accepted)
    click.echo(f"{accepted} tasks are being erased by the coordinators, {refused} are refused", err=as_json)
    return FAILED if refused else SUCCESS


def _pages(
    orchestrator: Orchestrator, filters: TaskFilterOptions, chosen: ErasureOptions, rate: float, dry_run: bool
) -> Iterator[RemovalPage]:
    cursor, requested = "", 0
    while True:
        page = orchestrator.operator.removal_page(
            cursor=cursor, dry_run=dry_run, delay=requested / rate, rate=rate, options=chosen, **filters
        )
        requested += len(page.tasks)
        yield page
        if not (cursor := page.cursor):
            return


def _print_page(page: RemovalPage, as_json: bool) -> None:
    for one in page.tasks:
        if as_json:
            click.echo(one.model_dump_json())
        else:
            click.echo(f"{one.task_id} {one.outcome}" + (f": {one_line(one.cause, 300)}" if one.cause else ""))


def _print_receipt(receipt: ErasureReceipt, as_json: bool) -> int:
    """Print the receipt. Return SUCCESS if the erasure is complete, and without a problem."""
    code = FAILED if receipt.finished_at is None or receipt.problem else SUCCESS
    if as_json:
        print_json(receipt)
        return code
    screen = Screen(sys.stdout)
    for name, value in receipt.model_dump(mode="json").items():
        if value not in ("", None, [], {}, False, 0) or name in ("files", "bytes"):
            text = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
            text = ", ".join(text) if isinstance(text, list) else text
            screen.line((f"{name:<16} ", "dim"), one_line(str(text), 500))
    if receipt.finished_at is None:
        click.echo("coordinators complete it; run the command again for the receipt", err=True)
    return code
