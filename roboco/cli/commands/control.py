"""roboco interrupt, stop, pause, resume, step: what changes the course of a task."""

import json
import sys
import time

import click
from pydantic import TypeAdapter

from roboco.cli.commands.open_task import opened
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.receipts import how_it_ended, what_came_of
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED
from roboco.cli.terminal.format import colour
from roboco.cli.terminal.screen import Screen
from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.domain.decision.decide import RAISE_TO_GO_ON
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary

_LOOK = 0.05
"""Seconds between two looks at what has become of a wish."""
_SETTLED = 0.5
"""Seconds after which a task that waits as before counts as one that makes no step."""


@click.command()
@click.argument("task_id")
@click.argument("message")
@options.answering
@options.wait(5)
@options.as_json
def interrupt(task_id: str, message: str, agent: str | None, wait: float, as_json: bool) -> None:
    """Interrupt a task with a message.

    What an agent was saying stands as it is. Printed is what became of it, at the latest after --wait seconds.
    """
    with opened(task_id) as task:
        receipt = task.interrupt(message, agent, wait=wait)
    record = TypeAdapter(Receipt).dump_python(receipt, mode="json")
    click.echo(json.dumps(record) if as_json else what_came_of(receipt, task_id))


@click.command()
@click.argument("task_id")
@click.option("--reason", default="stopped by the user", show_default=True, help="Why; it stands in the history.")
@options.wait(5)
def stop(task_id: str, reason: str, wait: float) -> None:
    """Stop a task: it ends as cancelled."""
    with opened(task_id) as task:
        status = task.summary().status
        receipt = task.stop(reason, wait=0 if status.ended else wait)
    if status.ended:
        click.echo(f"{task_id} has ended before ({status})")
    else:
        click.echo(
            f"{task_id} is asked to stop" if receipt.taken_at_seq is None else f"{task_id} has stopped{_how(receipt)}"
        )


@click.command()
@click.argument("task_id")
def pause(task_id: str) -> None:
    """Pause a task before its next step.

    What is being done comes to its end.
    """
    with opened(task_id) as task:
        task.pause()
    click.echo(f"{task_id} is asked to pause; go on with: roboco resume {task_id}, or roboco step {task_id}")


@click.command()
@click.argument("task_id")
def resume(task_id: str) -> None:
    """Resume a paused task.

    One that has paused at a limit goes on once that is raised.
    """
    with opened(task_id) as task:
        task.resume()
        summary = task.summary()
    at_limit = summary.status is TaskStatus.PAUSED and summary.reason.endswith(RAISE_TO_GO_ON)
    told = (
        f"{task_id} stays paused: {summary.reason}, with: roboco raise {task_id}" if at_limit else f"{task_id} goes on"
    )
    click.echo(told)


@click.command()
@click.argument("task_id")
@options.wait(30)
@options.as_json
def step(task_id: str, wait: float, as_json: bool) -> int:
    """Run one step of a task, show it, and pause the task.

    A task at work ends the step that it is at. The exit code is 1 if that took longer than --wait seconds.
    """
    with opened(task_id) as task:
        before = task.summary()
        task.step()
        now = _held(task, before, wait)
        steps = task.history()
    made = steps[before.steps :]
    if as_json:
        record = {"summary": now.model_dump(mode="json"), "steps": [one.model_dump(mode="json") for one in made]}
        click.echo(json.dumps(record, indent=2))
    else:
        _print(Screen(sys.stdout), steps[: before.steps], made, now)
    return 0 if _rests(now.status) else FAILED


def _how(receipt: Receipt) -> str:
    """How an agent that was speaking was ended; empty if none was."""
    return "" if receipt.seen_at is None else f": {how_it_ended(receipt)}"


def _held(task: Task, before: TaskSummary, seconds: float) -> TaskSummary:
    """The task at a glance, once it rests after a step or rests as it did before, or the time is over."""
    began = time.monotonic()
    while True:
        now = task.summary()
        waited = time.monotonic() - began
        made = now.steps > before.steps or now.status.ended
        stays = now.status is not TaskStatus.PAUSED and waited > _SETTLED
        if waited > seconds or (_rests(now.status) and (made or stays)):
            return now
        time.sleep(_LOOK)


def _rests(status: TaskStatus) -> bool:
    return status.ended or status.waiting


def _print(screen: Screen, past: list[TaskStep], made: list[TaskStep], now: TaskSummary) -> None:
    view = LiveView(screen)
    for one in past[-1:]:
        view.known(one)
    for one in made:
        view.step(one)
    screen.blank()
    style = colour(now.status)
    reason = now.reason if _rests(now.status) else "the step has not come to its end yet"
    screen.line(("── ", style), (now.status, f"bold {style}"), (f" · {reason}" if reason else "", "dim"))
    if not made and _rests(now.status):
        screen.line(("   no step was made", "dim"))
