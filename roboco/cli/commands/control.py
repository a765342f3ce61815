"""roboco interrupt, stop, pause, resume, step: the controls of a task, or of all that meet conditions."""

import sys
import time
from typing import Any, Final

import click

from roboco.cli.bulk.bulk_option import bulk_option
from roboco.cli.commands.open_task import open_task
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.receipts import describe_effect, describe_reply_end
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.format import status_colour
from roboco.cli.terminal.json_output import print_json, print_result
from roboco.cli.terminal.screen import Screen
from roboco.client.stream import is_at_rest
from roboco.client.task import Task
from roboco.domain.history.step import TaskStep
from roboco.domain.limits import RAISE_LIMIT_HINT
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary

_POLL_INTERVAL: Final = 0.05
"""Seconds between two reads of a task that runs a step."""
_NO_STEP_AFTER: Final = 0.5
"""Seconds after which a task that still waits counts as one that runs no step."""


def _no_message(given: dict[str, Any]) -> dict[str, Any]:
    if given["message"] is not None:
        raise click.UsageError(f"a message is for one task (found {given['message']!r})")
    return {}


@click.command()
@bulk_option("interrupt", _no_message)
@click.argument("message", required=False)
@options.answering_agent
@options.timeout(5)
@options.as_json
def interrupt(task_id: str, message: str | None, agent: str | None, timeout: float, as_json: bool) -> None:
    """Interrupt a task, with or without a message.

    It continues with MESSAGE, or waits for one. The text that an agent has streamed so far stays. The command prints
    the effect, after --timeout seconds at the latest. Or interrupt all running tasks that meet conditions, without a
    message.
    """
    with open_task(task_id) as task:
        receipt = task.interrupt(message, agent, timeout=timeout)
    print_result(as_json, receipt, describe_effect(receipt, task_id))


@click.command()
@bulk_option("stop", lambda given: {} if given["reason"] is None else {"reason": given["reason"]})
@click.option("--reason", metavar="TEXT", help="Why; the history keeps it.")
@options.timeout(5)
@options.as_json
def stop(task_id: str, reason: str | None, timeout: float, as_json: bool) -> None:
    """Stop a task: it ends as cancelled.

    Or stop all open tasks that meet conditions, such as --tenant acme --older 2h: the command prints their number,
    asks for confirmation, and does not wait until they have ended. With --json it prints one object a line.
    """
    with open_task(task_id) as task:
        status = task.summary().status
        receipt = task.stop(reason or "stopped by the user", timeout=0 if status.ended else timeout)
        if receipt.expired:  # it has ended meanwhile
            status = task.summary().status
    if status.ended:
        text = f"{task_id} has ended before ({status})"
    elif receipt.applied_at_seq is None:
        text = f"{task_id} is asked to stop"
    else:
        text = f"{task_id} has stopped" + ("" if receipt.seen_at is None else f": {describe_reply_end(receipt)}")
    print_result(as_json, receipt, text)


@click.command()
@bulk_option("pause")
@options.as_json
def pause(task_id: str, as_json: bool) -> None:
    """Pause a task before its next step.

    The current step is finished. Or pause all open tasks that meet conditions.
    """
    with open_task(task_id) as task:
        receipt = task.pause()
    text = f"{task_id} is asked to pause; continue with: roboco resume {task_id}, or roboco step {task_id}"
    print_result(as_json, receipt, text)


@click.command()
@bulk_option("resume")
@options.as_json
def resume(task_id: str, as_json: bool) -> None:
    """Resume a paused task.

    A task that is paused at a limit continues once the limit is raised. Or resume all paused tasks that meet
    conditions.
    """
    with open_task(task_id) as task:
        receipt = task.resume()
        summary = task.summary()
    text = f"{task_id} continues"
    if summary.status is TaskStatus.PAUSED and summary.reason.endswith(RAISE_LIMIT_HINT):
        text = f"{task_id} stays paused: {summary.reason}, with: roboco limits {task_id}"
    print_result(as_json, receipt, text)


@click.command()
@bulk_option("step")
@options.timeout(30)
@options.as_json
def step(task_id: str, timeout: float, as_json: bool) -> int:
    """Run one step of a task, show it, and pause the task.

    If a step is running, the command waits for its end. The exit code is 1 if that takes longer than --timeout seconds.
    Or have all paused tasks that meet conditions run one step, without waiting.
    """
    with open_task(task_id) as task:
        before = task.summary()
        task.step()
        now = _wait_for_step(task, before, timeout)
        steps = task.history()
    new = steps[before.steps :]
    if as_json:
        print_json({"summary": now, "steps": new})
    else:
        _print_steps(Screen(sys.stdout), steps[: before.steps], new, now)
    return SUCCESS if is_at_rest(now) else FAILED


def _wait_for_step(task: Task, before: TaskSummary, seconds: float) -> TaskSummary:
    """Return the task once it rests after a step, or still rests without one, or as it is after this time."""
    started = time.monotonic()
    while True:
        now = task.summary()
        waited = time.monotonic() - started
        has_new_step = now.steps > before.steps or now.status.ended
        runs_none = now.status is not TaskStatus.PAUSED and waited > _NO_STEP_AFTER
        if waited > seconds or (is_at_rest(now) and (has_new_step or runs_none)):
            return now
        time.sleep(_POLL_INTERVAL)


def _print_steps(screen: Screen, earlier: list[TaskStep], new: list[TaskStep], now: TaskSummary) -> None:
    view = LiveView(screen)
    for one in earlier[-1:]:
        view.note_step(one)
    for one in new:
        view.step(one)
    screen.blank()
    style = status_colour(now.status)
    reason = now.reason if is_at_rest(now) else "the step has not ended yet"
    screen.line(("── ", style), (now.status, f"bold {style}"), (f" · {reason}" if reason else "", "dim"))
    if not new and is_at_rest(now):
        screen.line(("   no step was run", "dim"))
