"""task_conditions: the options of commands that concern the tasks which meet conditions."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from roboco.cli.terminal import options
from roboco.client.options import TaskFilterOptions
from roboco.domain.task_filter import STATUS_NAMES, parse_time

_Command = TypeVar("_Command", bound=Callable[..., Any])
NAMES: Final = ("status", "tenant", "team", "since", "until", "text", "what_if")
"""The parameters of these options."""
_OPTIONS: Final = (
    click.option(
        "--status", type=click.Choice(STATUS_NAMES), multiple=True, help="A status, or a group; may be repeated."
    ),
    click.option("--tenant", metavar="TENANT", help='The tenant; "" for tasks without one.'),
    click.option("--since", metavar="TIME", help="Changed since then: 2h, 1d, or a time such as 2026-01-31T09:30."),
    click.option("--until", "--older", metavar="TIME", help="Not changed since then."),
    click.option(
        "--text",
        metavar="TEXT",
        callback=options.not_empty,
        help="A part of the title, in upper or lower case.",
    ),
    click.option("--what-if/--no-what-if", "what_if", default=None, help="Runs of what-if alone, or without them."),
)


def task_conditions(command: _Command, team_option: str = "--team") -> _Command:
    """Add the options to the command. `team_option` is another name for the one of the team."""
    team = click.option(team_option, "team", metavar="TEAM", help="The name of the team.")
    for option in (*reversed(_OPTIONS[2:]), team, *reversed(_OPTIONS[:2])):
        command = option(command)
    return command


def filter_options(given: Mapping[str, Any]) -> TaskFilterOptions:
    """Return the conditions of these parameters of a command. Durations end now. Raises UsageError for a wrong time."""
    now = datetime.now().astimezone()
    return TaskFilterOptions(
        status=given["status"],
        tenant=given["tenant"],
        team=given["team"],
        since=None if given["since"] is None else parse_time(given["since"], now),
        until=None if given["until"] is None else parse_time(given["until"], now),
        text=given["text"],
        what_if=given["what_if"],
    )
