"""roboco show: the steps, files and cost of a task."""

import sys
from typing import get_args

import click

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal import options
from roboco.cli.terminal.current_summary import check_complete, current_summary
from roboco.cli.terminal.format import (
    agent_usage,
    cost_suffix,
    counted,
    plain_reason,
    status_colour,
    step_usage,
)
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.domain.reading_form import DocumentForm, steps_in_form
from roboco.domain.task_summary import TaskSummary
from roboco.settings import load_settings


@click.command()
@click.argument("task_id")
@options.as_json
@click.option(
    "--form",
    type=click.Choice(get_args(DocumentForm)),
    help="With --json, steps that the classes of this document read.",
)
def show(task_id: str, as_json: bool, form: DocumentForm | None) -> None:
    """Show a task: its steps, files and cost.

    The command prints its steps with texts, tool calls and results, the last frames of exceptions of tools, its files,
    and the tokens, calls and cost of each agent and tool.
    """
    with Orchestrator(load_settings()) as orchestrator:
        task = orchestrator.stored_task(task_id)
        summary, stale = current_summary(task)
        steps, artifacts, failures = task.history(), task.artifacts(), task.call_failures()
    if as_json:
        failed = list(failures.values())
        shown = steps if form is None else list(steps_in_form(steps, form))
        print_json({"summary": summary, "steps": shown, "artifacts": artifacts, "failures": failed})
    else:
        screen = Screen(sys.stdout)
        _print(screen, LiveView(screen, failures), summary, steps, artifacts)
    if stale:
        click.echo(stale, err=True)
    check_complete(summary, len(steps))


def _print(
    screen: Screen, view: LiveView, summary: TaskSummary, steps: list[TaskStep], artifacts: list[Artifact]
) -> None:
    screen.line(("task ", "dim"), summary.task_id, (f" · team {summary.team}", "dim"))
    for step in steps:
        view.step(step)
        if used := step_usage(step):
            screen.line((f"   {used}", "dim"))
    screen.blank()
    style = status_colour(summary.status)
    reason = f" · {plain_reason(summary.reason)}" if summary.reason else ""
    screen.line(("── ", style), (summary.status, f"bold {style}"), (reason, "dim"))
    tokens = f"{summary.tokens_in} tokens in, {summary.tokens_out} out{cost_suffix(summary.cost)}"
    seconds = (summary.updated_at - summary.created_at).total_seconds()
    screen.line((f"   {counted(summary.steps, 'step')} · {tokens} · {seconds:.1f} s", "dim"))
    for name, spent in summary.agents.items():
        screen.line((f"   {name}: {agent_usage(spent)}", "dim"))
    for name, spent in summary.tools.items():
        screen.line(
            (f"   {name}: {counted(spent.calls, 'call')} · {spent.seconds:.1f} s{cost_suffix(spent.cost)}", "dim")
        )
    for artifact in artifacts:
        screen.line((f"   file {artifact.name} · {artifact.mime_type} · {artifact.size} bytes", "dim"))
