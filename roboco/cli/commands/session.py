"""roboco session, delta: a task as a conversation, for programs."""

from typing import get_args

import click

from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.domain.session.agent_session import SessionForm

_form_option = click.option(
    "--form",
    type=click.Choice(get_args(SessionForm)),
    default="roboco",
    show_default=True,
    help="The names and statuses of Roboco, or those of roboto.ai's sessions.",
)


@click.command()
@click.argument("task_id")
@_form_option
@options.always_json
def session(task_id: str, form: SessionForm) -> None:
    """Print a task as a conversation, as JSON.

    It has a message for each step, and one for a running turn.
    """
    with open_task(task_id) as task:
        click.echo(task.session(form=form).model_dump_json(indent=2))


@click.command()
@click.argument("task_id")
@click.argument("token", default="")
@_form_option
@options.always_json
def delta(task_id: str, token: str, form: SessionForm) -> None:
    """Print the changes of a task's conversation as JSON.

    TOKEN is the continuation_token of a session or of an earlier delta; without it, all of the session is printed.
    """
    with open_task(task_id) as task:
        click.echo(task.delta(token, form=form).model_dump_json())
