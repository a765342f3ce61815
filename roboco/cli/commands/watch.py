"""roboco watch: the live view of a task that runs elsewhere."""

import sys
from contextlib import closing

import click

from roboco.cli.interactive.conversation import Display
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.reader_thread import Feed
from roboco.cli.terminal import options
from roboco.cli.terminal.json_lines import JsonLines
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import TaskEnded
from roboco.settings import read_settings


@click.command()
@click.argument("task_id")
@click.option("--cursor", help="Go on after the item that carried this cursor.")
@options.as_json
def watch(task_id: str, cursor: str | None, as_json: bool) -> int:
    """Show a task live until it has ended. Ctrl-C leaves, and the task goes on."""
    display = JsonLines(sys.stdout) if as_json else LiveView(Screen(sys.stdout))
    with closing(Orchestrator(read_settings())) as orchestrator:
        task = orchestrator.task(task_id)
        orchestrator.engine.board.load(task_id, 1)  # a Redis that does not answer is told now, not after a minute
        return _show(task, display, cursor)


def _show(task: Task, display: Display, cursor: str | None) -> int:
    feed = Feed(task.stream(cursor))
    try:
        while True:
            if (item := feed.next(1.0)) is None:
                if isinstance(display, LiveView):
                    display.idle()
                continue
            display.show(item)
            cursor = item.cursor
            if isinstance(item.data, TaskEnded):
                return 0 if item.data.status is TaskStatus.COMPLETED else 1
    except Interrupted as signal:
        again = f" --cursor {cursor}" if cursor else ""
        click.echo(f"\nthe task goes on; come back with: roboco watch {task.task_id}{again}", err=True)
        return signal.exit_code
