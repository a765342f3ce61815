"""roboco watch: the live view of a task that workers run."""

import sys
from functools import partial

import click

from roboco.cli.interactive.conversation import Conversation
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_item
from roboco.cli.terminal.key_echo import key_echo
from roboco.cli.terminal.log_notes import LogNotes
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus


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
    show = partial(print_item, sys.stdout) if view is None else view.show
    with key_echo(False), LogNotes().installed() as logged, Orchestrator(caller_settings()) as orchestrator:
        task = orchestrator.task(task_id)
        _ = task.status  # reads Redis: if it does not answer, fail now, not after a minute of retries

        def check() -> None:
            logged.print(screen)
            if view is not None:
                view.show_status(task.worker_check.missing_worker)

        watching = Conversation(task, task.astream(cursor, subtasks=subtasks), show, check=check, watches=True)
        try:
            return SUCCESS if watching.follow() is TaskStatus.COMPLETED else FAILED
        except Interrupted as signal:
            seen = watching.cursor or cursor
            again = (f" --cursor {seen}" if seen else "") + (" --subtasks" if subtasks else "")
            click.echo(f"\nthe task continues; watch it again with: roboco watch {task.task_id}{again}", err=True)
            return signal.exit_code
        finally:
            logged.print(screen)
