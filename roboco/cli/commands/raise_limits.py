"""roboco raise: let a task spend more than its team says."""

from typing import Any

import click

from roboco.cli.commands.open_task import opened
from roboco.domain.limits import RaisedLimits, Spending, ToolSpending
from roboco.errors import UsageError

_HELP = {
    "max_steps": "Steps of the task, or turns of the agent.",
    "max_tokens": "Tokens in and out together.",
    "max_tokens_in": "Tokens in.",
    "max_tokens_out": "Tokens out.",
    "max_seconds": "Seconds.",
    "max_calls": "Tool calls.",
    "max_cost": "Money, in the currency of the prices.",
}


def _options(command: Any) -> Any:
    for name, told in reversed(_HELP.items()):
        kind = float if name in ("max_seconds", "max_cost") else int
        command = click.option(f"--{name.replace('_', '-')}", name, type=kind, help=told)(command)
    return command


@click.command("raise")
@click.argument("task_id")
@click.option("--agent", help="The limits are this agent's, not the task's.")
@click.option("--tool", help="The limits are this tool's: --max-calls, --max-seconds, --max-cost.")
@_options
def raise_limits(task_id: str, agent: str | None, tool: str | None, **limits: Any) -> None:
    """Set other limits for a task.

    One that has paused at a limit goes on. Each limit that is given takes the place of the one before.
    """
    named = {name: value for name, value in limits.items() if value is not None}
    with opened(task_id) as task:
        task.raise_limits(**_of(agent, tool, named))
    told = ", ".join(f"{name} {value:g}" for name, value in named.items())
    click.echo(f"{task_id} has new limits: {told}{f' for {agent or tool}' if agent or tool else ''}")


def _of(agent: str | None, tool: str | None, named: dict[str, Any]) -> Any:
    """The limits as those of the task, an agent or a tool."""
    if agent is not None and tool is not None:
        raise UsageError("--agent and --tool: name one of them")
    possible = RaisedLimits if agent is tool is None else Spending if agent is not None else ToolSpending
    if wrong := [name for name in named if name not in possible.model_fields]:
        wrong_one, possible_ones = (name.replace("_", "-") for name in (wrong[0], ", --".join(possible.model_fields)))
        raise UsageError(f"--{wrong_one}: a tool has no such limit, it has --{possible_ones}")
    if agent is not None:
        return {"agents": {agent: named}}
    return named if tool is None else {"tools": {tool: named}}
