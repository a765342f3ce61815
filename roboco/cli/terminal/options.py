"""Options that several commands share."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _key_values(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not key or not sign:
            raise click.BadParameter(f"must be KEY=VALUE (found {value!r})")
        pairs[key] = text
    return pairs


def not_empty(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Refuse an empty text, as of a variable of the shell that is not set: the condition would meet all tasks."""
    if text == "":
        raise click.BadParameter("it is empty; leave the option out to mean all tasks")
    return text


def json_value(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    """Return the JSON value of an option, or None if it is not given. Raises BadParameter if it is not JSON."""
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"must be JSON: {error} (found {text!r})") from error


def json_object(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """Return the JSON object of an option, or None if it is not given. Raises BadParameter if it is no JSON object."""
    value = json_value(context, parameter, text)
    if text is None:
        return None
    if isinstance(value, dict):
        return value
    raise click.BadParameter(f"must be a JSON object (found {text!r})")


def timeout(seconds: int) -> Callable[[Command], Command]:
    """Return the option --timeout of a command that waits for the effect of its request."""
    return click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        default=seconds,
        show_default=True,
        help="How long the command waits for the effect.",
    )


context = click.option(
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_key_values,
    help="A value for the prompts' templates, as context.KEY; may be repeated.",
)
agent = click.option("--agent", metavar="NAME", help="The agent that acts first.")
answering_agent = click.option("--agent", metavar="NAME", help="The agent that answers.")
model = click.option(
    "--model", metavar="PROFILE", help="The model profile of agents that name none: see roboco models."
)
title = click.option("--title", metavar="TEXT", help="The task's title, for people.")
task_id = click.option(
    "--id", "task_id", metavar="TASK_ID", help="The task's id; the same task again is followed, or continued."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs; errors too.")
web = click.option("--web", is_flag=True, help="Serve the web view of the task too, until Ctrl-C.")
subtasks = click.option("--subtasks", is_flag=True, help="Show the texts and events of its sub-tasks, too.")
always_json = click.option(
    "--json", is_flag=True, expose_value=False, help="Print errors as JSON too; the output always is."
)
