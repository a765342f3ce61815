"""roboco context: the prompt of a turn: the steps that it contained, those that it left out, and why."""

import sys
from typing import Any

import click

from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.client.context_report import context_changes, context_report, find_turn
from roboco.domain.history.step import TaskStep


@click.command()
@click.argument("task_id")
@click.option("--step", "seq", type=int, help="The position of an agent's step; by default the newest one.")
@options.as_json
def context(task_id: str, seq: int | None, as_json: bool) -> None:
    """Show the steps that the model received for a step.

    The command prints the steps of the history that the prompt contained, those that it left out and why, the number of
    tokens, and the changes since the previous step of the same agent.
    """
    with open_task(task_id) as task:
        step, before = find_turn(task_id, task.steps(), seq)
    if as_json:
        print_json(context_report(step, before))
    else:
        _print(Screen(sys.stdout), step, before)


def _print(screen: Screen, step: TaskStep, before: TaskStep | None) -> None:
    report = step.metadata["context"]
    screen.line((f"step {step.seq} · ", "dim"), (step.agent_name, "bold"), (f" · {report.get('strategy')}", "dim"))
    if (summary := report.get("summary")) is not None:
        screen.line("   summary of steps ", _range_text(summary["steps"]), (f", written by {summary['by']}", "dim"))
    screen.line("   included: steps ", ", ".join(map(_range_text, report.get("included") or [])) or "none")
    for one in report.get("left_out") or []:
        screen.line("   left out: steps ", _range_text(one["steps"]), (f", {one['why']}", "dim"))
    if offered := report.get("offered"):
        screen.line(f"   offered since steps are left out: {', '.join(offered)}")
    if why := report.get("no_summary"):
        screen.line((f"   {why}", "yellow"))
    counted = ", ".join(f"{name} {count}" for name, count in (report.get("tokens") or {}).items())
    screen.line(f"   tokens: {counted}", (f" ({report.get('tokenizer')})", "dim"))
    usage = step.metadata.get("usage") or {}
    screen.line((f"   the model counted {usage.get('tokens_in', 0)} in, {usage.get('tokens_out', 0)} out", "dim"))
    if before is not None:
        _print_changes(screen, context_changes(before, step))


def _print_changes(screen: Screen, found: dict[str, Any]) -> None:
    parts = [f"{found['tokens']:+d} tokens"]
    for key, words in (("added", "with steps"), ("removed", "without steps")):
        if found[key]:
            parts.append(f"{words} {', '.join(map(_range_text, found[key]))}")
    if found["summary"]:
        parts.append("with another summary")
    screen.line((f"   compared with its step {found['since']}: {'; '.join(parts)}", "cyan"))


def _range_text(ends: list[int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
