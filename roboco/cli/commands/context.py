"""roboco context: what a turn was given, what it was not given, and why."""

import json
import sys
from typing import Any

import click

from roboco.cli.commands.open_task import opened
from roboco.cli.terminal import options
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.step import TaskStep
from roboco.errors import UsageError


@click.command()
@click.argument("task_id")
@click.option("--step", "seq", type=int, help="The position of an agent's step; without it, the newest one.")
@options.as_json
def context(task_id: str, seq: int | None, as_json: bool) -> None:
    """Show what the model was sent for a step, and what was left out.

    That is which steps of the history, which not and why, and how many tokens; and what has changed since the step
    before of the same agent.
    """
    with opened(task_id) as task:
        steps = [step for step in task.history() if step.by_agent and "context" in step.metadata]
    step = _chosen(task_id, steps, seq)
    before = next((one for one in reversed(steps) if one.seq < step.seq and one.agent_name == step.agent_name), None)
    if as_json:
        record = {"step": step.seq, "agent_name": step.agent_name, "context": step.metadata["context"]}
        click.echo(json.dumps(record | {"changes": None if before is None else changes(before, step)}, indent=2))
    else:
        _print(Screen(sys.stdout), step, before)


def _chosen(task_id: str, steps: list[TaskStep], seq: int | None) -> TaskStep:
    if not steps:
        raise UsageError(f"no agent of task {task_id!r} has made a turn yet")
    found = [step for step in steps if seq is None or step.seq == seq]
    if not found:
        possible = ", ".join(str(step.seq) for step in steps[-20:])
        raise UsageError(f"--step {seq}: is no turn of an agent in task {task_id!r}; those are {possible}")
    return found[-1]


def changes(before: TaskStep, step: TaskStep) -> dict[str, Any]:
    """What the agent was given for a step and not for the one before, and the other way round."""
    old, new = (_numbers(one.metadata["context"].get("included") or []) for one in (before, step))
    tokens, old_tokens = (_tokens(one) for one in (step, before))
    return {
        "since": before.seq,
        "came": sorted(new - old),
        "went": sorted(old - new),
        "tokens": tokens - old_tokens,
        "summary": step.metadata["context"].get("summary") != before.metadata["context"].get("summary"),
    }


def _print(screen: Screen, step: TaskStep, before: TaskStep | None) -> None:
    told = step.metadata["context"]
    screen.line((f"step {step.seq} · ", "dim"), (step.agent_name, "bold"), (f" · {told.get('strategy')}", "dim"))
    if (summary := told.get("summary")) is not None:
        screen.line("   summary of steps ", _span(summary["steps"]), (f", made by {summary['by']}", "dim"))
    screen.line("   given: steps ", ", ".join(map(_span, told.get("included") or [])) or "none")
    for one in told.get("left_out") or []:
        screen.line("   left out: steps ", _span(one["steps"]), (f", {one['why']}", "dim"))
    if why := told.get("no_summary"):
        screen.line((f"   {why}", "yellow"))
    counted = ", ".join(f"{name} {count}" for name, count in (told.get("tokens") or {}).items())
    screen.line(f"   tokens: {counted}", (f" ({told.get('tokenizer')})", "dim"))
    usage = step.metadata.get("usage") or {}
    screen.line((f"   the model counted {usage.get('tokens_in', 0)} in, {usage.get('tokens_out', 0)} out", "dim"))
    if before is not None:
        _compare(screen, changes(before, step))


def _compare(screen: Screen, found: dict[str, Any]) -> None:
    parts = [f"{found['tokens']:+d} tokens"]
    for what, word in (("came", "with steps"), ("went", "without steps")):
        if found[what]:
            parts.append(f"{word} {', '.join(map(str, found[what]))}")
    if found["summary"]:
        parts.append("with another summary")
    screen.line((f"   against its step {found['since']}: {'; '.join(parts)}", "cyan"))


def _numbers(ranges: list[list[int]]) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def _tokens(step: TaskStep) -> int:
    return int((step.metadata["context"].get("tokens") or {}).get("total", 0))


def _span(ends: list[int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
