"""Notification options: the targets to notify when a task has ended, or waits."""

from collections.abc import Callable
from typing import Any

import click

from roboco.cli.terminal.options import Command, json_object
from roboco.domain.status import TaskStatus

_STATUSES = [status.value for status in TaskStatus if status.ended or status.waiting]


def options(command: Command) -> Command:
    """Add these options to a command; `targets` turns them into the targets of `notify`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def targets(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Remove these options from `given`, and return the targets that they name.

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
    options = {} if queue is None else {"queue": queue}
    named: list[dict[str, Any]] = [{"webhook": url, "secret_env": secret_env} for url in urls]
    named += [{"celery": {"task": task, "args": [], "kwargs": {}, "options": options}} for task in tasks]
    return [target | ({"on": on} if on else {}) for target in named] + others


def _objects(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[dict[str, Any] | None]:
    return [json_object(context, parameter, text) for text in texts]


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
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
