"""roboco why: the agents that acted in a task, and the rules that chose them."""

import sys
from dataclasses import replace
from typing import Final

import click

from roboco.cli.interactive.next_command import next_commands
from roboco.cli.terminal import options
from roboco.cli.terminal.current_summary import current_summary
from roboco.cli.terminal.format import plain_reason, status_colour
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.tool_change import show_change
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.client.task_explanation import explain_task
from roboco.domain.recorded.explain import StepExplanation
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from roboco.settings import load_settings

MAX_LINE_CHARS: Final = 240


@click.command()
@click.argument("task_id")
@click.argument("step", required=False)
@options.as_json
def why(task_id: str, step: str | None, as_json: bool) -> None:
    """Explain who acted in a task and why.

    STEP, a position or a step's id, limits the output to that step. For each step the command prints the events before
    it, the rule and the router that chose the agent, and the other candidates; at the end, why the task ended or the
    cause for which it waits, such as a missing worker. If a person must approve a changed tool, its old and new parts
    are shown.
    """
    with Orchestrator(load_settings()) as orchestrator:
        task = orchestrator.stored_task(task_id)
        summary, stale = current_summary(task)
        if stale:
            click.echo(stale, err=True)
        past = task.recorded(summary)
        changes, left_out = task.tool_changes(past.steps[-1]), task.left_out_tools()
        missing = "" if summary.status.ended else _missing_worker(task, summary.status, bool(stale))
        commands = [] if stale else next_commands(task_id, task.pending_actions(), summary.status)
    found = replace(explain_task(task_id, past, step, missing, changes), left_out=left_out)
    if as_json:
        print_json(found)
        return
    screen = Screen(sys.stdout)
    screen.line(("task ", "dim"), task_id, (f" · team {found.team}", "dim"))
    for scene in found.steps:
        _print_step(screen, scene)
    for text in found.left_out:
        _print_line(screen, "tools", text, "yellow")
    for change in found.changes:
        show_change(screen, change)
    _print_end(screen, found.status, found.end)
    for command in commands:
        _print_line(screen, "", command, "")


def _missing_worker(task: Task, status: TaskStatus, stale: bool) -> str:
    """Return the cause for which the task waits, or "". If Redis did not answer, do not wait for it again."""
    if stale:
        return "" if status.waiting else "the cause is not known while Redis does not answer"
    try:
        return task.missing_worker()
    except TransientError as error:
        return str(error)


def _print_step(screen: Screen, scene: StepExplanation) -> None:
    screen.blank()
    screen.line(("── ", "cyan"), (f"step {scene.seq} · {scene.agent_name}", "bold cyan"))
    for line in scene.before:
        _print_line(screen, "before", line, "dim")
    _print_line(screen, "why", plain_reason(scene.why), "bold")
    if scene.router:
        _print_line(screen, "rule", f"{scene.rule}, of the {scene.router} router", "")
    if any(candidate.name != scene.rule for candidate in scene.candidates):
        for candidate in scene.candidates:
            text = f"{candidate.name} · {candidate.why}" if candidate.why else candidate.name
            _print_line(screen, "possible", text, "green" if candidate.taken else "dim")
    for line in scene.events:
        _print_line(screen, "then", line, "")


def _print_line(screen: Screen, label: str, text: str, style: str) -> None:
    screen.line((f"   {label:<9}", "dim"), (one_line(text, MAX_LINE_CHARS), style))


def _print_end(screen: Screen, status: TaskStatus, end: str) -> None:
    screen.blank()
    screen.line(
        ("── ", status_colour(status)),
        (one_line(plain_reason(end), 2 * MAX_LINE_CHARS), f"bold {status_colour(status)}"),
    )
