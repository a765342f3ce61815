"""roboco submit, send: what a user tells a team from outside."""

import json
from contextlib import closing
from typing import Any

import click

from roboco.cli import options
from roboco.cli.opened import opened
from roboco.client.orchestrator import Orchestrator
from roboco.domain.priority import PRIORITIES
from roboco.engine.message import WhileWorking
from roboco.settings import read_settings


@click.command()
@click.argument("team")
@click.argument("prompt")
@options.context
@options.agent
@options.model
@options.title
@options.task_id
@click.option("--eta", metavar="TIME", help="When it begins, such as 2026-03-01T08:00:00+01:00; at once by default.")
@click.option("--countdown", metavar="SECONDS", type=click.FloatRange(min=0), help="In how many seconds it begins.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="What goes first where workers are short; normal.")
@options.as_json
def submit(team: str, prompt: str, as_json: bool, **wished: Any) -> None:
    """Submit a task to running workers and print its id.

    TEAM is the path of a team file, or the name of one in ROBOCO_TEAMS.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        task = orchestrator.run(team, prompt, **wished)
    click.echo(json.dumps({"task_id": task.task_id}) if as_json else task.task_id)


@click.command()
@click.argument("task_id")
@click.argument("message")
@options.answering
@click.option(
    "--while-working",
    type=click.Choice(["queue", "interrupt", "reject"]),
    help="What becomes of it if the team is at work; by default what the team file says.",
)
def send(task_id: str, message: str, agent: str | None, while_working: WhileWorking | None) -> None:
    """Send a message to a task.

    A task that waits for its user goes on.
    """
    with opened(task_id) as task:
        task.send(message, agent, while_working=while_working)
    click.echo(f"sent to {task_id}")
