"""roboco answer, approve, deny, resolve: what persons and clients say of tool calls."""

import sys
from typing import Any, Literal

import click

from roboco.cli.commands.open_task import opened
from roboco.cli.terminal import options
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.tool_change import show_change


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--result", metavar="JSON", callback=options.json_value, help="What the call came to.")
@click.option("--error", metavar="TEXT", help="Why it has no result.")
@click.option("--declined", is_flag=True, help="The client did not want to run it.")
def answer(task_id: str, call_id: str, result: Any, error: str | None, declined: bool) -> None:
    """Submit the result of a client tool call.

    A task waits for it in status client_tool_turn. A call has one answer.
    """
    status: Literal["success", "error", "declined"] = "success" if error is None else "error"
    with opened(task_id) as task:
        task.answer(call_id, result, status="declined" if declined else status, error=error)
    click.echo(f"{call_id} is answered")


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option(
    "--args",
    metavar="JSON",
    callback=options.json_object,
    help="Other arguments, all of them, for the call to run with.",
)
def approve(task_id: str, call_id: str, args: dict[str, Any] | None) -> None:
    """Approve a tool call.

    A task waits for it in status approval. The first word on a call counts. If the tool has changed since the task
    began, the change is approved and shown; `roboco why TASK` shows it before that.
    """
    with opened(task_id) as task:
        changes = [change for change in task.tool_changes() if change.call_id == call_id]
        task.approve(call_id, args)
    for change in changes:
        show_change(Screen(sys.stdout), change)
    click.echo(f"{call_id} is approved")


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--reason", metavar="TEXT", default="", help="Why; the agent is told.")
def deny(task_id: str, call_id: str, reason: str) -> None:
    """Deny a tool call.

    Its agent reads that, and goes on. The first word on a call counts.
    """
    with opened(task_id) as task:
        task.deny(call_id, reason)
    click.echo(f"{call_id} is denied")


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--happened/--did-not-happen", default=None, help="Whether the call had its effect.")
@click.option("--result", metavar="JSON", callback=options.json_value, help="The call's result, where that is known.")
def resolve(task_id: str, call_id: str, happened: bool | None, result: Any) -> None:
    """Resolve a tool call with an unknown outcome.

    A task waits for it (status approval) where its tool says on_unknown: ask.
    """
    if happened is None:
        raise click.UsageError("say --happened or --did-not-happen")
    with opened(task_id) as task:
        task.resolve(call_id, happened, result)
    click.echo(f"{task_id} goes on")
