"""roboco submit, send: what a user tells a team from outside."""

import json
from contextlib import closing
from typing import Any

import click

from roboco.cli.commands import notify
from roboco.cli.commands.open_task import opened
from roboco.cli.terminal import options
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.priority import PRIORITIES
from roboco.domain.ids import check_tenant
from roboco.engine.intake.send import WhileWorking
from roboco.settings import Settings, read_settings


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
@click.option(
    "--tenant", metavar="NAME", help="Whose task it is: its id is then NAME:TASK_ID. ROBOCO_TENANT by default."
)
@notify.options
@options.as_json
def submit(team: str, prompt: str, tenant: str | None, as_json: bool, **wished: Any) -> None:
    """Submit a task to running workers and print its id.

    TEAM is the path of a team file, or the name of one in ROBOCO_TEAMS_DIR. Nothing is stored if an option is wrong.
    """
    told = notify.targets(wished)
    with closing(Orchestrator(_of_tenant(tenant))) as orchestrator:
        task = orchestrator.run(team, prompt, notify=told, **wished)
    click.echo(json.dumps({"task_id": task.task_id}) if as_json else task.task_id)


def _of_tenant(tenant: str | None) -> Settings:
    settings = read_settings()
    if tenant is None:
        return settings
    if settings.tenant not in (None, check_tenant(tenant)):
        raise click.UsageError(f"--tenant {tenant!r}: ROBOCO_TENANT is {settings.tenant!r}, and knows no other's tasks")
    return settings.model_copy(update={"tenant": tenant})


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
