"""roboco fork: a new task with the first steps of another one."""

import json
from contextlib import closing
from typing import Any

import click

from roboco.cli.terminal import options
from roboco.client.orchestrator import Orchestrator
from roboco.settings import read_settings


@click.command()
@click.argument("source", metavar="TASK_ID")
@click.option("--seq", type=click.IntRange(min=0), help="The last step that is taken over; by default all are.")
@click.option("--message", metavar="TEXT", help="What the user says then.")
@options.model
@click.option("--agent", metavar="NAME", help="Who answers the message.")
@click.option("--team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR.")
@click.option("--id", "task_id", metavar="NEW_ID", help="The new task's id; the same fork again is the same task.")
@options.as_json
def fork(source: str, as_json: bool, **wished: Any) -> None:
    """Start a new task from the first steps of a task.

    It goes on with the message, team or model that is given; the other task stays as it is.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        task = orchestrator.task(source).fork(**wished)
    click.echo(json.dumps({"task_id": task.task_id}) if as_json else task.task_id)
