"""roboco session, delta: a task as a conversation, for programs."""

import click

from roboco.cli.opened import opened


@click.command()
@click.argument("task_id")
def session(task_id: str) -> None:
    """Print a task as a conversation, in JSON.

    There is a message for each step, and one for a turn that is being made.
    """
    with opened(task_id) as task:
        click.echo(task.session().model_dump_json(indent=2))


@click.command()
@click.argument("task_id")
@click.argument("token", default="")
def delta(task_id: str, token: str) -> None:
    """Print what is new in a task's conversation, in JSON.

    TOKEN is the continuation_token of a session or of an earlier delta; without it everything is new.
    """
    with opened(task_id) as task:
        click.echo(task.delta(token).model_dump_json())
