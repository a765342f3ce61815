"""roboco submit, send, stop, resolve: what a user tells a team from outside."""

import json
from contextlib import closing
from typing import Any

import click

from roboco.cli import options
from roboco.client.orchestrator import Orchestrator
from roboco.settings import read_settings


@click.command()
@click.argument("team")
@click.argument("prompt")
@options.context
@options.agent
@options.task_id
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
@click.option("--agent", metavar="NAME", help="Who answers.")
def send(task_id: str, message: str, agent: str | None) -> None:
    """Send a message to a task.

    A task that waits for its user goes on.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        orchestrator.task(task_id).send(message, agent)
    click.echo(f"sent to {task_id}")


@click.command()
@click.argument("task_id")
@click.option("--reason", default="stopped by the user", show_default=True, help="Why; it stands in the history.")
def stop(task_id: str, reason: str) -> None:
    """Stop a task: it ends as cancelled."""
    with closing(Orchestrator(read_settings())) as orchestrator:
        task = orchestrator.task(task_id)
        status = task.summary().status
        task.stop(reason)
    click.echo(f"{task_id} has ended before ({status})" if status.ended else f"{task_id} is asked to stop")


def _result(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"must be JSON: {error} (found {text!r})") from error


@click.command()
@click.argument("task_id")
@click.argument("call_id")
@click.option("--happened/--did-not-happen", default=None, help="Whether the call had its effect.")
@click.option("--result", metavar="JSON", callback=_result, help="The call's result, where that is known.")
def resolve(task_id: str, call_id: str, happened: bool | None, result: Any) -> None:
    """Say what came of a tool call whose outcome nobody knows.

    A task waits for it (status approval) where its tool says on_unknown: ask.
    """
    if happened is None:
        raise click.UsageError("say --happened or --did-not-happen")
    with closing(Orchestrator(read_settings())) as orchestrator:
        orchestrator.task(task_id).resolve(call_id, happened, result)
    click.echo(f"{task_id} goes on")
