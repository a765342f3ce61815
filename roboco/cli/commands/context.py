"""roboco context: the prompt of a turn: the steps that it contained, those that it left out, and why."""

import sys
from typing import Any

import click

from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.step import TaskStep
from roboco.errors import UsageError


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
        steps = [step for step in task.history() if step.by_agent and "context" in step.metadata]
    step = _select_step(task_id, steps, seq)
    before = next((one for one in reversed(steps) if one.seq < step.seq and one.agent_name == step.agent_name), None)
    if as_json:
        record = {"step": step.seq, "agent_name": step.agent_name, "context": step.metadata["context"]}
        print_json(record | {"changes": None if before is None else changes(before, step)})
    else:
        _print(Screen(sys.stdout), step, before)


def _select_step(task_id: str, steps: list[TaskStep], seq: int | None) -> TaskStep:
    if not steps:
        raise UsageError(f"no agent of task {task_id!r} has had a turn yet")
    matching = [step for step in steps if seq is None or step.seq == seq]
    if not matching:
        possible = ", ".join(str(step.seq) for step in steps[-20:])
        raise UsageError(f"--step {seq}: is no turn of an agent in task {task_id!r}; those are {possible}")
    return matching[-1]


def changes(before: TaskStep, step: TaskStep) -> dict[str, Any]:
    """Return the steps that the prompt of a step contained and that of the one before did not, and vice versa."""
    old, new = (_positions(one.metadata["context"].get("included") or []) for one in (before, step))
    tokens, old_tokens = (_total_tokens(one) for one in (step, before))
    return {
        "since": before.seq,
        "added": sorted(new - old),
        "removed": sorted(old - new),
        "tokens": tokens - old_tokens,
        "summary": step.metadata["context"].get("summary") != before.metadata["context"].get("summary"),
    }


def _print(screen: Screen, step: TaskStep, before: TaskStep | None) -> None:
    report = step.metadata["context"]
    screen.line((f"step {step.seq} · ", "dim"), (step.agent_name, "bold"), (f" · {report.get('strategy')}", "dim"))
    if (summary := report.get("summary")) is not None:
        screen.line("   summary of steps ", _range_text(summary["steps"]), (f", written by {summary['by']}", "dim"))
    screen.line("   included: steps ", ", ".join(map(_range_text, report.get("included") or [])) or "none")
    for one in report.get("left_out") or []:
        screen.line("   left out: steps ", _range_text(one["steps"]), (f", {one['why']}", "dim"))
    if why := report.get("no_summary"):
        screen.line((f"   {why}", "yellow"))
    counted = ", ".join(f"{name} {count}" for name, count in (report.get("tokens") or {}).items())
    screen.line(f"   tokens: {counted}", (f" ({report.get('tokenizer')})", "dim"))
    usage = step.metadata.get("usage") or {}
    screen.line((f"   the model counted {usage.get('tokens_in', 0)} in, {usage.get('tokens_out', 0)} out", "dim"))
    if before is not None:
        _print_changes(screen, changes(before, step))


def _print_changes(screen: Screen, found: dict[str, Any]) -> None:
    parts = [f"{found['tokens']:+d} tokens"]
    for key, words in (("added", "with steps"), ("removed", "without steps")):
        if found[key]:
            parts.append(f"{words} {', '.join(map(str, found[key]))}")
    if found["summary"]:
        parts.append("with another summary")
    screen.line((f"   compared with its step {found['since']}: {'; '.join(parts)}", "cyan"))


def _positions(ranges: list[list[int]]) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def _total_tokens(step: TaskStep) -> int:
    return int((step.metadata["context"].get("tokens") or {}).get("total", 0))


def _range_text(ends: list[int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
