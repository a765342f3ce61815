"""roboco answer, approve, deny, resolve: results and decisions of clients and persons for tool calls."""

import sys
from typing import Any, Literal

import click

from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.tool_change import show_change


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--result", metavar="JSON", callback=options.json_value, help="The result of the call.")
@click.option("--error", metavar="TEXT", help="Why there is no result.")
@click.option("--declined", is_flag=True, help="The client refuses to run the call.")
@options.as_json
def answer(task_id: str, call_id: str, result: Any, error: str | None, declined: bool, as_json: bool) -> None:
    """Submit the result of a client tool call.

    A task waits for it in status client_tool_turn. A call has one answer.
    """
    status: Literal["success", "error", "declined"] = "success" if error is None else "error"
    with open_task(task_id) as task:
        task.answer(call_id, result, status="declined" if declined else status, error=error)
    _print(task_id, call_id, "answered", as_json)


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option(
    "--args",
    metavar="JSON",
    callback=options.json_object,
    help="Arguments that replace all of the call's own.",
)
@options.as_json
def approve(task_id: str, call_id: str, args: dict[str, Any] | None, as_json: bool) -> None:
    """Approve a tool call.

    A task waits for it in status approval. The first decision on a call counts. If the tool has changed since the task
    started, the command approves the change and prints it; `roboco why TASK` prints it before that.
    """
    with open_task(task_id) as task:
        changes = [change for change in task.tool_changes() if change.call_id == call_id]
        task.approve(call_id, args)
    if not as_json:
        for change in changes:
            show_change(Screen(sys.stdout), change)
    _print(task_id, call_id, "approved", as_json, changes=changes)


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--reason", metavar="TEXT", default="", help="Why; the agent reads it.")
@options.as_json
def deny(task_id: str, call_id: str, reason: str, as_json: bool) -> None:
    """Deny a tool call.

    Its agent reads the reason, and continues. The first decision on a call counts.
    """
    with open_task(task_id) as task:
        task.deny(call_id, reason)
    _print(task_id, call_id, "denied", as_json)


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--happened/--did-not-happen", default=None, help="Whether the call had its effect.")
@click.option("--result", metavar="JSON", callback=options.json_value, help="The call's result, if it is known.")
@options.as_json
def resolve(task_id: str, call_id: str, happened: bool | None, result: Any, as_json: bool) -> None:
    """Resolve a tool call with an unknown outcome.

    A task waits for it in status approval, if its tool says on_unknown: ask.
    """
    if happened is None:
        raise click.UsageError("say --happened or --did-not-happen")
    with open_task(task_id) as task:
        task.resolve(call_id, happened, result)
    _print(task_id, call_id, "resolved", as_json)


def _print(task_id: str, call_id: str, status: str, as_json: bool, **more: object) -> None:
    if as_json:
        print_json({"task_id": task_id, "call_id": call_id, "status": status, **more})
    else:
        click.echo(f"{call_id} is {status}")
