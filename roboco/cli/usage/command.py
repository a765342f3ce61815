"""roboco usage: cost, tokens and calls of many tasks, as a table, CSV or JSON lines."""

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import click
from rich.text import Text

from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.progress import progress
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import text_table
from roboco.client.operator.usage import UsageSummary, csv_lines, json_lines, parse_day
from roboco.client.options import UsageOptions
from roboco.client.orchestrator import Orchestrator
from roboco.domain.usage_table import MEASURES, UsageRow
from roboco.settings import load_settings

MAX_CELL_CHARS = 40


@click.command()
@click.option(
    "--by", metavar="LIST", default="team,model", show_default=True, help="Some of tenant,team,agent,model,tool,day."
)
@click.option("--since", metavar="DAY", help="The first day in UTC: 2026-01-31, or 7d. Default: 29d.")
@click.option("--until", metavar="DAY", help="The last day. Default: today.")
@click.option("--tenant", metavar="TENANT", help='The tenant; "" for tasks without one.')
@click.option("--team", metavar="TEAM", multiple=True, help="The name of the team; may be repeated.")
@click.option("--all", "all_tasks", is_flag=True, help="Read all tasks, also those that roboco tasks no longer lists.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines; errors as JSON too.")
def usage(  # noqa: PLR0913 - the options of a command
    by: str,
    since: str | None,
    until: str | None,
    tenant: str | None,
    team: tuple[str, ...],
    all_tasks: bool,
    as_csv: bool,
    as_json: bool,
) -> int:
    """Report turns, tokens, calls and cost.

    The numbers are those of the recorded steps; a step counts on the day of its time in UTC. The report holds every
    step that was committed before it began. The exit code is 1 if tasks may be missing; stderr says which.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json: name one of them")
    today = datetime.now(UTC).date()
    options = UsageOptions(
        since=_day(since, today),
        until=_day(until, today),
        tenant=tenant,
        team=list(team) or None,
        all_tasks=all_tasks,
    )
    with Orchestrator(load_settings()) as orchestrator:
        collector = orchestrator.operator.usage_collector(by, **options)
        with progress("tasks read") as show:
            for tasks in collector.collect():
                show(tasks)
        report = collector.report()
    _print(report, as_csv, as_json)
    for problem in report.problems:
        click.echo(f"tasks may be missing: {one_line(problem, 1000)}", err=True)
    return SUCCESS if report.complete else FAILED


def _day(text: str | None, today: date) -> date | None:
    return None if text is None else parse_day(text, today)


def _print(report: UsageSummary, as_csv: bool, as_json: bool) -> None:
    if as_csv or as_json:
        for line in csv_lines(report) if as_csv else json_lines(report):
            click.echo(line, nl=False)
        return
    screen = Screen(sys.stdout)
    screen.table(text_table((*report.by, *(f">{measure.replace('_', ' ')}" for measure in MEASURES)), _rows(report)))
    screen.line(
        (f"{report.first_day} to {report.last_day} (UTC), {report.tasks} tasks, as of ", "dim"),
        (f"{report.as_of:%Y-%m-%d %H:%M:%S}", "dim"),
    )


def _rows(report: UsageSummary) -> Iterator[list[str | Text]]:
    for row in report.rows:
        places = (one_line(str(getattr(row, place)), MAX_CELL_CHARS) for place in report.by)
        yield [*(place or "-" for place in places), *_numbers(row)]
    yield [Text("total", "bold"), *("" for _ in report.by[1:]), *_numbers(report.total)]


def _numbers(row: UsageRow) -> list[str]:
    values: dict[str, Any] = {name: getattr(row, name) for name in MEASURES}
    return [f"{value:,.6f}" if name == "cost" else f"{value:,}" for name, value in values.items()]
