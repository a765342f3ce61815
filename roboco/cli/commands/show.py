"""roboco show: everything that a task has come to."""

import json
import sys
from contextlib import closing

import click

from roboco.cli.commands.overview import Overview, check_complete
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal import options
from roboco.cli.terminal.format import colour, cost, counted, of_step, spending
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.domain.task_summary import TaskSummary
from roboco.engine.record.call_failures import call_failures
from roboco.settings import read_settings


@click.command()
@click.argument("task_id")
@options.as_json
def show(task_id: str, as_json: bool) -> None:
    """Show a task: its steps, files and cost.

    Its steps with texts, tool calls and results, the last frames of exceptions of tools, its files, and what it used.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        overview = Overview(orchestrator)
        summary = overview.of(task_id)
        steps = list(orchestrator.engine.histories.read(summary.task_id))
        artifacts = orchestrator.task(task_id).artifacts()
        failures = call_failures(orchestrator.engine.files, summary.task_id)
    if as_json:
        record = {
            "summary": summary.model_dump(mode="json"),
            "steps": [step.model_dump(mode="json") for step in steps],
            "artifacts": [artifact.model_dump(mode="json") for artifact in artifacts],
            "failures": [failure.model_dump(mode="json") for failure in failures.values()],
        }
        click.echo(json.dumps(record, indent=2))
    else:
        screen = Screen(sys.stdout)
        _print(screen, LiveView(screen, failures), summary, steps, artifacts)
    if overview.stale:
        click.echo(overview.stale, err=True)
    check_complete(summary, len(steps))


def _print(
    screen: Screen, view: LiveView, summary: TaskSummary, steps: list[TaskStep], artifacts: list[Artifact]
) -> None:
    screen.line(("task ", "dim"), summary.task_id, (f" · team {summary.team}", "dim"))
    for step in steps:
        view.step(step)
        if used := of_step(step):
            screen.line((f"   {used}", "dim"))
    screen.blank()
    style = colour(summary.status)
    reason = f" · {summary.reason}" if summary.reason else ""
    screen.line(("── ", style), (summary.status, f"bold {style}"), (reason, "dim"))
    used = f"{summary.steps} steps · {summary.tokens_in} tokens in, {summary.tokens_out} out{cost(summary.cost)}"
    seconds = (summary.updated_at - summary.created_at).total_seconds()
    screen.line((f"   {used} · {seconds:.1f} s", "dim"))
    for name, spent in summary.agents.items():
        screen.line((f"   {name}: {spending(spent)}", "dim"))
    for name, spent in summary.tools.items():
        screen.line((f"   {name}: {counted(spent.calls)} · {spent.seconds:.1f} s{cost(spent.cost)}", "dim"))
    for artifact in artifacts:
        screen.line((f"   file {artifact.name} · {artifact.mime_type} · {artifact.size} bytes", "dim"))
