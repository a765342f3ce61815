"""run_bulk: run a bulk control from its count to its totals."""

import json
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import click

from roboco.cli.terminal.exit import FAILED, SUCCESS, print_error
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.client.operator.bulk import PAGE_SIZE, Bulk, BulkOutcome, BulkPage
from roboco.client.operator.bulk_control import ControlName
from roboco.client.orchestrator import Orchestrator
from roboco.settings import load_settings

MAX_FAILED_IDS: Final = 10_000
"""Failed tasks whose ids are kept, so that one that fails again, or succeeds later, is counted once."""


@dataclass(frozen=True)
class BulkRequest:
    """A bulk control as a command line asks for it."""

    name: ControlName
    options: Any
    bulk_id: str | None
    cursor: str
    yes: bool
    as_json: bool


@dataclass
class Totals:
    """The outcomes so far."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
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

    def as_dict(self) -> dict[str, int]:
        """Return the number of tasks for each outcome."""
        return {name: self.counts[name] for name in ("accepted", "repeated", "ended", "failed")}


def run_bulk(request: BulkRequest) -> int:
    """Run the bulk control and print its totals. Return the exit code: 1 if a task has failed."""
    with closing(Orchestrator(load_settings())) as orchestrator:
        bulk = orchestrator.bulk(request.name, bulk_id=request.bulk_id, **request.options)
        matching = bulk.count(request.cursor)
        click.echo(f"{request.name}: {matching} tasks", err=True)
        if not request.yes:
            _confirm(request.name, matching)
        click.echo(f"resume this run after a crash with the same options and --bulk-id {bulk.bulk_id}", err=True)
        totals = _run(request, bulk, matching)
    if request.as_json:
        click.echo(json.dumps({"bulk_id": bulk.bulk_id, **totals.as_dict(), "complete": totals.complete}))
    else:
        click.echo(f"{request.name}: " + ", ".join(f"{count} {name}" for name, count in totals.as_dict().items()))
    if not totals.complete:
        message = "tasks may be missing: coordinators rebuild the task index; repeat the command with --bulk-id"
        click.echo(f"{message} {bulk.bulk_id} later", err=True)
    return FAILED if totals.counts["failed"] or not totals.complete else SUCCESS


def _confirm(name: str, matching: int) -> None:
    """Raise UsageError without a terminal, and Abort unless the user confirms."""
    if not _is_terminal():
        raise click.UsageError("this command asks for confirmation on a terminal: use --yes in scripts")
    click.confirm(f"{name} {matching} tasks?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _run(request: BulkRequest, bulk: Bulk, matching: int) -> Totals:
    """Control page after page, and print failures. However it is aborted, print how it is resumed."""
    totals, cursor = Totals(), request.cursor
    try:
        for page in bulk.pages(cursor, PAGE_SIZE):
            totals.add(page)
            for one in page.outcomes:
                _print_outcome(one, request.as_json)
            cursor = page.cursor
            if cursor and page.outcomes:
                click.echo(f"{request.name}: {totals.counts.total()} of {matching} tasks", err=True)
    except BaseException:
        option = f"--cursor {cursor}" if cursor else f"--bulk-id {bulk.bulk_id}"
        click.echo(f"aborted after {totals.counts.total()} tasks; resume with the same options and {option}", err=True)
        raise
    return totals


def _print_outcome(one: BulkOutcome, as_json: bool) -> None:
    if as_json:
        click.echo(one.model_dump_json())
    elif one.outcome == "failed":
        print_error(one.code, f"{one.task_id}: {escape_invisible(one.cause)}", as_json)
