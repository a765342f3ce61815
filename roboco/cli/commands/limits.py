"""roboco limits, retry: replace limits, and continue failed tasks: of one task, or of many."""

from typing import Any

import click

from roboco.cli.bulk.bulk_option import bulk_option
from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_result
from roboco.domain.limits import LimitOverrides, ToolLimits, UsageLimits
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


def _limit_options(command: Any) -> Any:
    for name, text in reversed(_HELP.items()):
        kind = float if name in ("max_seconds", "max_cost") else int
        command = click.option(f"--{name.replace('_', '-')}", name, type=kind, help=text)(command)
    tool = click.option("--tool", help="Set limits of this tool: --max-calls, --max-seconds, --max-cost.")
    return click.option("--agent", help="Set limits of this agent instead of the task's.")(tool(command))


def _values(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _HELP if given[name] is not None}


def _given_limits(given: dict[str, Any]) -> dict[str, Any]:
    return {"limits": _scoped(given["agent"], given["tool"], _values(given))}


@click.command()
@bulk_option("limits", _given_limits)
@_limit_options
@options.as_json
def limits(task_id: str, agent: str | None, tool: str | None, as_json: bool, **limits: Any) -> None:
    """Set other limits for a task.

    Each limit that is given replaces the one before. A task that is paused at a limit continues. Or set limits
    of all open tasks that meet conditions.
    """
    given = _values(limits)
    with open_task(task_id) as task:
        receipt = task.set_limits(**_scoped(agent, tool, given))
    listed = ", ".join(f"{name} {value:g}" for name, value in given.items())
    whose = f" for {agent or tool}" if agent or tool else ""
    print_result(as_json, receipt, f"{task_id} has new limits: {listed}{whose}")


def _given_retry(given: dict[str, Any]) -> dict[str, Any]:
    if given["from_step"] is not None:
        raise UsageError("--from: name one task; a step is a position in its history")
    values = _values(given)
    limits = _scoped(given["agent"], given["tool"], values) if values else None
    return {"reason": given["reason"] or None, "limits": limits}


@click.command()
@bulk_option("retry", _given_retry)
@click.option("--reason", default="", metavar="TEXT", help="Why; the history keeps it.")
@click.option("--from", "from_step", metavar="STEP", type=click.IntRange(min=0), help="The last step that is kept.")
@_limit_options
@options.as_json
def retry(
    task_id: str,
    reason: str,
    from_step: int | None,
    agent: str | None,
    tool: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Continue a failed task in a new one, from its last good step.

    It prints the id of the new task. With conditions in place of TASK_ID, all failed tasks that meet them continue.

    Fix the cause of the failure first: `roboco why TASK_ID` shows it. A task that has ended at a limit needs a higher
    one, such as --max-steps. Webhooks and callbacks hear of the new task. The same retry again prints the same id.

    --from names the position of that step, as `roboco show` prints it; `roboco fork --seq STEP` continues from another.
    """
    given = _values(limits)
    with open_task(task_id) as task:
        new = task.retry(reason, from_step=from_step, **(_scoped(agent, tool, given) if given else {}))
    print_result(as_json, {"task_id": new.task_id}, new.task_id)


def _scoped(agent: str | None, tool: str | None, given: dict[str, Any]) -> Any:
    """Return the limits as those of the task, an agent or a tool. Raises UsageError for a limit that it cannot have."""
    if agent is not None and tool is not None:
        raise UsageError("--agent and --tool: name one of them")
    possible = LimitOverrides if agent is tool is None else UsageLimits if agent is not None else ToolLimits
    if wrong := [name for name in given if name not in possible.model_fields]:
        wrong_one, possible_ones = (name.replace("_", "-") for name in (wrong[0], ", --".join(possible.model_fields)))
        raise UsageError(f"--{wrong_one}: a tool has no such limit, it has --{possible_ones}")
    if agent is not None:
        return {"agents": {agent: given}}
    return given if tool is None else {"tools": {tool: given}}
