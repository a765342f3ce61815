"""roboco watch: the live view of a task that workers run."""

import sys
from collections.abc import Callable
from functools import partial
from queue import Empty

import click

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_item
from roboco.cli.terminal.key_echo import key_echo
from roboco.cli.terminal.log_notes import LogNotes
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.blocking import ReadAhead
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import TaskEnded


@click.command()
@click.argument("task_id")
@click.option("--cursor", help="Continue after the item that carried this cursor.")
@options.subtasks
@options.as_json
def watch(task_id: str, cursor: str | None, subtasks: bool, as_json: bool) -> int:
    """Show a task live until it has ended.

    Ctrl-C leaves, and the task continues. The exit code is 0 if the task has completed, and 1 if it has ended
    otherwise.
    """
    screen = Screen(sys.stderr if as_json else sys.stdout)
    view = None if as_json else LiveView(screen, task_id=task_id)
    with key_echo(False), LogNotes().installed() as logged, Orchestrator(caller_settings()) as orchestrator:
        task = orchestrator.task(task_id)
        _ = task.status  # reads Redis: if it does not answer, fail now, not after a minute of retries
        try:
            return _follow(task, view, cursor, subtasks, partial(logged.print, screen))
        finally:
            logged.print(screen)


def _follow(
    task: Task, view: LiveView | None, cursor: str | None, subtasks: bool, print_logged: Callable[[], None]
) -> int:
    items = ReadAhead(task.astream(cursor, subtasks=subtasks))
    try:
        while True:
            try:
                item = items.next(1.0)
            except Empty:
                print_logged()
                if view is not None:
                    view.show_status(task.worker_check.missing_worker)
                continue
            if item is None:
                return FAILED
            print_item(sys.stdout, item) if view is None else view.show(item)
            cursor = item.cursor
            if isinstance(item.data, TaskEnded) and item.task_id in ("", task.task_id):
                return SUCCESS if item.data.status is TaskStatus.COMPLETED else FAILED
    except Interrupted as signal:
        again = (f" --cursor {cursor}" if cursor else "") + (" --subtasks" if subtasks else "")
        click.echo(f"\nthe task continues; watch it again with: roboco watch {task.task_id}{again}", err=True)
        return signal.exit_code
