"""roboco answer, approve, deny, resolve: results and decisions for a tool call, or for those of many tasks."""

import sys
from typing import Any, Literal

import click

from roboco.cli.bulk.bulk_option import bulk_option
from roboco.cli.commands.open_task import open_task
from roboco.cli.interactive.next_command import decisions
from roboco.cli.interactive.tool_text import call_text
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_result
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.tool_change import show_change
from roboco.client.task import Task

_call_id = click.argument("call_id", required=False)
_tool = click.option("--tool", metavar="NAME", help="With conditions: the calls of this tool alone.")


def _given(*names: str) -> Any:
    """Return a function that returns these parameters for the calls of many tasks.

    An empty tool, as of a variable of the shell that is not set, is one: without it, all tools would be meant.
    """

    def content(given: dict[str, Any]) -> dict[str, Any]:
        if given.get("args") is not None:
            raise click.UsageError("--args: name one task and its call; many calls are approved as they are")
        return {name: given[name] for name in names if given[name] is not None and (name != "reason" or given[name])}

    return content


def _check_call(task: Task, call_id: str | None, tool: str | None, *verbs: str) -> str:
    """Return the call that is named, or else the only one that waits for the first verb. Raises UsageError."""
    if tool is not None:
        raise click.UsageError("--tool: it chooses calls of many tasks; leave out TASK_ID and CALL_ID")
    if call_id is not None:
        return call_id
    pending, verb = task.pending_actions(), verbs[0].partition(" ")[0]
    waiting = {"resolve": pending.unknown, "answer": pending.unanswered}.get(verb, pending.unapproved)()
    if not waiting:
        raise click.UsageError(
            f"no call of this task waits for `roboco {verb}`; `roboco why {task.task_id}` shows its state"
        )
    if len(waiting) > 1:
        commands = "\n  ".join(decisions(task.task_id, waiting, *verbs))
        raise click.UsageError(f"{len(waiting)} calls wait, name one of them:\n  {commands}")
    return waiting[0].id


@click.command()
@bulk_option("answer", _given("tool", "result", "error", "declined"))
@_call_id
@_tool
@click.option("--result", metavar="JSON", callback=options.json_value, help="The result of the call.")
@click.option("--error", metavar="TEXT", help="Why there is no result.")
@click.option("--declined", is_flag=True, help="The client refuses to run the call.")
@options.as_json
def answer(  # noqa: PLR0913 - one parameter for each option
    task_id: str, call_id: str | None, tool: str | None, result: Any, error: str | None, declined: bool, as_json: bool
) -> None:
    """Submit the result of a client tool call.

    A task waits for it in status client_tool_turn. A call has one answer. Or give all calls that wait now, of tasks
    that meet conditions, the same answer: for example, --tool client_map --error "the map is closed".
    """
    status: Literal["success", "error", "declined"] = "success" if error is None else "error"
    with open_task(task_id) as task:
        call_id = _check_call(task, call_id, tool, "answer --result JSON")
        origin = _origin(task, call_id)
        task.answer(call_id, result, status="declined" if declined else status, error=error)
    _print(task_id, call_id, "answered", as_json, origin)


@click.command()
@bulk_option("approve", _given("tool"))
@_call_id
@_tool
@click.option(
    "--args",
    metavar="JSON",
    callback=options.json_object,
    help="Arguments that replace all of the call's own.",
)
@options.as_json
def approve(task_id: str, call_id: str | None, tool: str | None, args: dict[str, Any] | None, as_json: bool) -> None:
    """Approve a tool call.

    A task waits for it in status approval. The first decision on a call counts. If the tool has changed since the task
    started, the command approves the change and prints it; `roboco why TASK` prints it before that.

    Or approve all calls that wait now, of tasks that meet conditions: the command prints them by tool, with its effect,
    before it asks. Calls that are made later, and calls of tools that have changed, are left.
    """
    with open_task(task_id) as task:
        call_id = _check_call(task, call_id, tool, "approve", "deny")
        origin = _origin(task, call_id, args)
        changes = [change for change in task.tool_changes() if change.call_id == call_id]
        task.approve(call_id, args)
    if not as_json:
        for change in changes:
            show_change(Screen(sys.stdout), change)
    _print(task_id, call_id, "approved", as_json, origin, changes=changes)


@click.command()
@bulk_option("deny", _given("tool", "reason"))
@_call_id
@_tool
@click.option("--reason", metavar="TEXT", default="", help="Why; the agent reads it.")
@options.as_json
def deny(task_id: str, call_id: str | None, tool: str | None, reason: str, as_json: bool) -> None:
    """Deny a tool call.

    Its agent reads the reason, and continues. The first decision on a call counts. Or deny all calls that wait now, of
    tasks that meet conditions.
    """
    with open_task(task_id) as task:
        call_id = _check_call(task, call_id, tool, "deny")
        origin = _origin(task, call_id)
        task.deny(call_id, reason)
    _print(task_id, call_id, "denied", as_json, origin)


@click.command()
@bulk_option("resolve", _given("tool", "happened", "result"))
@_call_id
@_tool
@click.option("--happened/--did-not-happen", default=None, help="Whether the call had its effect.")
@click.option("--result", metavar="JSON", callback=options.json_value, help="The call's result, if it is known.")
@options.as_json
def resolve(
    task_id: str, call_id: str | None, tool: str | None, happened: bool | None, result: Any, as_json: bool
) -> None:
    """Resolve a tool call with an unknown outcome.

    A task waits for it in status approval, if its tool says on_unknown: ask. Or resolve all calls that wait now, of
    tasks that meet conditions. Tasks that begin to wait later are left.
    """
    if happened is None:
        raise click.UsageError("say --happened or --did-not-happen")
    with open_task(task_id) as task:
        call_id = _check_call(task, call_id, tool, "resolve --happened", "resolve --did-not-happen")
        origin = _origin(task, call_id)
        task.resolve(call_id, happened, result)
    _print(task_id, call_id, "resolved", as_json, origin)


def _origin(task: Task, call_id: str, args: dict[str, Any] | None = None) -> str:
    """Return the tool, arguments, agent and task of a call for people, or "" if it is no newest call.

    `args` are arguments that a person approves in place of the call's own.
    """
    task_id, agent, call = task.pending_actions().origins().get(call_id, ("", "", None))
    if call is None:
        return ""
    shown = call if args is None else call.model_copy(update={"args": args})
    return f": {call_text(shown)} of {one_line(agent, 64)}, task {task_id}"


def _print(task_id: str, call_id: str, status: str, as_json: bool, origin: str, **more: object) -> None:
    record = {"task_id": task_id, "call_id": call_id, "status": status, **more}
    print_result(as_json, record, f"{call_id} is {status}{origin}")
