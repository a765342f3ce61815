"""roboco fork: a new task with the first steps of another one."""

from contextlib import closing
from typing import Any

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.json_output import print_json
from roboco.client.orchestrator import Orchestrator


@click.command()
@click.argument("source", metavar="TASK_ID")
@click.option("--seq", type=click.IntRange(min=0), help="The last step to copy; by default all steps.")
@click.option("--message", metavar="TEXT", help="The user's message after them.")
@options.model
@click.option("--agent", metavar="NAME", help="The agent that answers the message.")
@click.option("--team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR.")
@click.option("--id", "task_id", metavar="NEW_ID", help="The new task's id; the same fork again is the same task.")
@options.as_json
def fork(source: str, as_json: bool, **given: Any) -> None:
    """Start a new task from the first steps of a task.

    The new task continues with the message, team or model that is given; the other task stays as it is.
    """
    with closing(Orchestrator(caller_settings())) as orchestrator:
        task = orchestrator.task(source).fork(**given)
    if as_json:
        print_json({"task_id": task.task_id})
    else:
        click.echo(task.task_id)
