"""roboco what-if: runs that continue a recorded task with another team, model or prompt, beside the task."""

import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import click
from rich.text import Text

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.format import status_colour
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import ignore_signals
from roboco.cli.terminal.table import text_table
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.recorded.run_comparison import RunRow, WhatIfReport
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.domain.team.what_if import MAX_RUNS
from roboco.errors import NotFound

_STOP_SECONDS: Final = 15.0
"""Seconds in which runs that were stopped end, before the command shows them as they are."""
_ROUTE_CHARS: Final = 80
_RESULT_CHARS: Final = 60
_REASON_CHARS: Final = 120


def _prompt_files(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    prompts: dict[str, str] = {}
    for value in values:
        agent, sign, name = value.partition("=")
        if not agent or not sign or not name:
            raise click.BadParameter(f"must be AGENT=FILE (found {value!r})")
        try:
            with Path(name).open(encoding="utf-8") as file:
                prompts[agent] = file.read(MAX_PROMPT_CHARS + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{name!r} cannot be read: {error}") from error
    return prompts


@click.command("what-if")
@click.argument("task_id")
@click.option(
    "--from", "seq", metavar="STEP", type=click.IntRange(min=0), help="The last step to share; by default the prompt."
)
@click.option("--team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR.")
@options.model
@click.option(
    "--prompt", "prompts", metavar="AGENT=FILE", multiple=True, callback=_prompt_files, help="An agent's other prompt."
)
@click.option("--runs", type=click.IntRange(1, MAX_RUNS), default=1, show_default=True, help="The number of runs.")
@click.option(
    "--max-steps", type=click.IntRange(min=1), help="Of each run; by default twice those of the task, at least 20."
)
@click.option(
    "--max-cost", type=click.FloatRange(min=0, min_open=True), help="Of each run; by default three times the task's."
)
@click.option(
    "--refuse-unrecorded", is_flag=True, help="Refuse pure tools too if the task has no result for their arguments."
)
@click.option("--keep", is_flag=True, help="Keep runs that wait, to continue them; otherwise they are stopped.")
@options.timeout(600)
@options.as_json
def what_if(task_id: str, timeout: float, keep: bool, as_json: bool, refuse_unrecorded: bool, **given: Any) -> int:
    """Run a recorded task differently, and compare.

    The runs are tasks of the running workers. They begin with the task's steps up to --from, and get the results that
    its tools returned for the same arguments. A call without such a result runs if its tool is pure, and is refused
    otherwise: irreversible tools never run. The task itself stays as it is.

    After --timeout seconds, and with Ctrl-C, the runs are stopped. The exit code is 1 if a run had not ended by then.
    """
    comparison_id = uuid.uuid4().hex[:12]
    with Orchestrator(caller_settings()) as orchestrator:
        task = orchestrator.task(task_id)
        try:
            unrecorded: Literal["run", "refuse"] = "refuse" if refuse_unrecorded else "run"
            seconds = max(timeout, 1.0)
            running = task.what_if(max_seconds=seconds, unrecorded=unrecorded, what_if=comparison_id, **given)
            runs = running.task_ids
            click.echo(f"runs {', '.join(runs)}; watch one with: roboco watch {runs[0]}", err=True)
            late = running.wait(timeout)
        except KeyboardInterrupt:
            with ignore_signals():
                _stop_after_interruption(task, comparison_id)
            raise
        if late:
            running.stop(f"it had not ended after {timeout:g} s", late)
            running.wait(_STOP_SECONDS)
        try:
            report = running.report()
        finally:
            if not keep:
                running.stop()
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return FAILED if late else SUCCESS


def _stop_after_interruption(task: Task, comparison_id: str) -> None:
    """Stop the runs that exist: Ctrl-C may have come before all were started."""
    with suppress(NotFound):
        task.comparison(comparison_id).stop("the command was interrupted")
        click.echo("the runs are stopped", err=True)


def _print_report(report: WhatIfReport) -> None:
    """Print the comparison, and the ids of the runs with the reasons of their statuses."""
    screen = Screen(sys.stdout)
    numbers = (">tokens", ">cost", ">seconds", ">recorded", ">run", ">refused")
    runs = (_cells(str(number), row, _difference(row)) for number, row in enumerate(report.runs, 1))
    rows = (_cells("task", report.task, ""), *runs)
    screen.table(text_table(("run", "status", "route", "result", "differs", *numbers), rows))
    screen.blank()
    for number, row in enumerate(report.runs, 1):
        reason = f": {one_line(row.reason, _REASON_CHARS)}" if row.reason else ""
        screen.line((f"{number} is {row.task_id}{reason}", "dim"))


def _cells(name: str, row: RunRow, difference: str) -> tuple[str | Text, ...]:
    return (
        name,
        Text(row.status, style=status_colour(TaskStatus(row.status))),
        one_line(" > ".join(row.route), _ROUTE_CHARS),
        one_line(row.result, _RESULT_CHARS),
        difference,
        f"{row.tokens_in + row.tokens_out}",
        f"{row.cost:.4g}",
        f"{row.seconds:.1f}",
        *(str(count) for count in (row.calls.recorded, row.calls.run, row.calls.refused)),
    )


def _difference(row: RunRow) -> str:
    """Return the first step that takes another route, else the first one that differs in another way."""
    if row.route_differs_at is not None:
        return f"step {row.route_differs_at}: route"
    found = row.difference
    return "nothing" if found is None else f"step {found.seq}: {found.what}"
