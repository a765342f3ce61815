"""roboco submit, send: new tasks, and messages for running ones."""

from collections.abc import Callable
from typing import Any, Literal

import click

from roboco.cli.bulk.bulk_option import bulk_option
from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_result
from roboco.cli.terminal.options import Command
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.step import PRIORITIES
from roboco.domain.ids import check_tenant
from roboco.domain.status import TaskStatus
from roboco.settings import Settings, load_settings

_STATUSES = [status.value for status in TaskStatus if status.ended or status.waiting]


def _notification_options(command: Command) -> Command:
    for option in reversed(_NOTIFICATIONS):
        command = option(command)
    return command


def _targets(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Remove the notification options from `given`, and return the targets of `notify` that they name.

    Raises click.UsageError if an option lacks another one.
    """
    urls, tasks = given.pop("webhook"), given.pop("callback")
    secret_env, queue = given.pop("secret_env"), given.pop("callback_queue")
    on, others = list(given.pop("notify_on")), list(given.pop("notify"))
    if bool(urls) != (secret_env is not None):
        raise click.UsageError("--webhook URL and --secret-env VARIABLE belong together: webhooks are signed")
    if queue is not None and not tasks:
        raise click.UsageError("--callback-queue is the queue of a --callback, and there is none")
    if on and not (urls or tasks):
        raise click.UsageError("--notify-on is for --webhook and --callback: a --notify says its own 'on'")
    routing = {} if queue is None else {"queue": queue}
    named: list[dict[str, Any]] = [{"webhook": url, "secret_env": secret_env} for url in urls]
    named += [{"celery": {"task": task, "args": [], "kwargs": {}, "options": routing}} for task in tasks]
    return [target | ({"on": on} if on else {}) for target in named] + others


def _objects(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[dict[str, Any] | None]:
    return [options.json_object(context, parameter, text) for text in texts]


_NOTIFICATIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--webhook", metavar="URL", multiple=True, help="An address to notify of its end; may be repeated."),
    click.option("--secret-env", metavar="VARIABLE", help="The workers' variable with the secret that signs webhooks."),
    click.option(
        "--callback",
        metavar="NAME",
        multiple=True,
        help="A Celery task of your own to notify of its end; may be repeated.",
    ),
    click.option("--callback-queue", metavar="QUEUE", help="The queue of the callbacks; by default Celery's own."),
    click.option(
        "--notify-on",
        type=click.Choice(_STATUSES),
        multiple=True,
        help="A status of which to notify them; may be repeated. By default each in which it has ended.",
    ),
    click.option(
        "--notify",
        metavar="JSON",
        multiple=True,
        callback=_objects,
        help='Another target, as an object such as {"celery": SIGNATURE, "on": ["failed"]}; may be repeated.',
    ),
)


@click.command()
@click.argument("team")
@click.argument("prompt")
@options.context
@options.agent
@options.model
@options.title
@options.task_id
@click.option(
    "--eta", metavar="TIME", help="The time at which it starts, such as 2026-03-01T08:00:00+01:00; by default now."
)
@click.option("--countdown", metavar="SECONDS", type=click.FloatRange(min=0), help="Seconds after which it starts.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Its place in the queues; normal by default.")
@click.option(
    "--tenant",
    metavar="NAME",
    help="The tenant that it belongs to: its id is then NAME:TASK_ID. ROBOCO_TENANT by default.",
)
@click.option("--conversation", is_flag=True, help="Wait for a message where the task would complete.")
@_notification_options
@options.as_json
def submit(team: str, prompt: str, tenant: str | None, as_json: bool, **given: Any) -> None:
    """Submit a task to running workers and print its id.

    TEAM is the path of a team file, or the name of one in ROBOCO_TEAMS_DIR. Nothing is stored if an option is wrong.
    """
    if targets := _targets(given):
        given["notify"] = targets
    with Orchestrator(_tenant_settings(tenant)) as orchestrator:
        task = orchestrator.run(team, prompt, **given)
    print_result(as_json, {"task_id": task.task_id}, task.task_id)


def _tenant_settings(tenant: str | None) -> Settings:
    settings = load_settings()
    if tenant is None:
        return settings
    if settings.tenant not in (None, check_tenant(tenant)):
        raise click.UsageError(
            f"--tenant {tenant!r}: ROBOCO_TENANT is {settings.tenant!r}; leave --tenant out, or unset ROBOCO_TENANT"
        )
    return settings.model_copy(update={"tenant": tenant})


def _given_message(given: dict[str, Any]) -> dict[str, Any]:
    names = {"for_many": "message", "agent": "agent", "if_busy": "if_busy"}
    return {option: given[name] for name, option in names.items() if given[name] is not None}


@click.command()
@bulk_option("send", _given_message)
@click.argument("message", required=False)
@click.option("--message", "for_many", metavar="TEXT", help="The message, with conditions in place of TASK_ID.")
@options.answering_agent
@click.option(
    "--if-busy",
    type=click.Choice(["queue", "interrupt", "reject"]),
    help="Its fate while an agent or a tool runs; by default that of the team file.",
)
@options.as_json
def send(
    task_id: str,
    message: str | None,
    for_many: str | None,
    agent: str | None,
    if_busy: Literal["queue", "interrupt", "reject"] | None,
    as_json: bool,
) -> None:
    """Send a message to a task.

    A task that waits for its user continues. Or send --message to all tasks that wait for their user and meet
    conditions; --status open includes the others.
    """
    chosen = message if for_many is None else for_many
    if chosen is None or (for_many is not None and message is not None):
        raise click.UsageError(f"give one message, as in: roboco send {task_id} MESSAGE")
    with open_task(task_id) as task:
        receipt = task.send(chosen, agent, if_busy=if_busy)
    print_result(as_json, receipt, f"sent to {task_id}")
