"""Notify: the options that say who is told when a task has ended, or waits."""

from collections.abc import Callable
from typing import Any

import click

from roboco.cli.terminal.options import Command, json_object
from roboco.domain.status import TaskStatus

_STATUSES = [status.value for status in TaskStatus if status.ended or status.waiting]


def options(command: Command) -> Command:
    """Give the command these options; `targets` makes of them who is told."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def targets(wished: dict[str, Any]) -> list[dict[str, Any]]:
    """Who is told by the options, which are taken out of `wished`; UsageError of click if one lacks another."""
    urls, tasks = wished.pop("webhook"), wished.pop("callback")
    secret_env, queue = wished.pop("secret_env"), wished.pop("callback_queue")
    on, others = list(wished.pop("notify_on")), list(wished.pop("notify"))
    if bool(urls) != (secret_env is not None):
        raise click.UsageError("--webhook URL and --secret-env VARIABLE come together: webhooks are signed")
    if queue is not None and not tasks:
        raise click.UsageError("--callback-queue is the queue of a --callback, and there is none")
    if on and not (urls or tasks):
        raise click.UsageError("--notify-on is for --webhook and --callback: a --notify says its own 'on'")
    options = {} if queue is None else {"queue": queue}
    told = [{"webhook": url, "secret_env": secret_env} for url in urls]
    told += [{"celery": {"task": task, "args": [], "kwargs": {}, "options": options}} for task in tasks]
    return [one | ({"on": on} if on else {}) for one in told] + others


def _objects(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[dict[str, Any] | None]:
    return [json_object(context, parameter, text) for text in texts]


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--webhook", metavar="URL", multiple=True, help="An address that is told of its end; may be repeated."
    ),
    click.option("--secret-env", metavar="VARIABLE", help="The workers' variable with the secret that signs webhooks."),
    click.option(
        "--callback",
        metavar="NAME",
        multiple=True,
        help="A Celery task of your own that is told of its end; may be repeated.",
    ),
    click.option("--callback-queue", metavar="QUEUE", help="The queue of the callbacks; by default Celery's own."),
    click.option(
        "--notify-on",
        type=click.Choice(_STATUSES),
        multiple=True,
        help="Of which status they are told; may be repeated. By default each in which it has ended.",
    ),
    click.option(
        "--notify",
        metavar="JSON",
        multiple=True,
        callback=_objects,
        help='Who else is told, as an object such as {"celery": SIGNATURE, "on": ["failed"]}; may be repeated.',
    ),
)
