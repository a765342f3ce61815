"""roboco models: the model profiles of a team."""

import sys
from contextlib import closing

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.team.model_offer import ModelProfileInfo
from roboco.settings import load_settings


@click.command()
@click.argument("team")
@options.as_json
def models(team: str, as_json: bool) -> None:
    """List the model profiles of a team, for --model.

    TEAM is the path of a team file, or the name of one in ROBOCO_TEAMS_DIR.
    """
    with closing(Orchestrator(load_settings())) as orchestrator:
        profiles = orchestrator.models(team)
    if as_json:
        print_json(profiles)
    elif profiles:
        Screen(sys.stdout).table(_table(profiles))
    else:
        click.echo("the team declares no model profiles")


def _table(profiles: list[ModelProfileInfo]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("profile", "model", "label", "description"):
        table.add_column(heading, overflow="fold")
    for profile in profiles:
        name = f"{profile.id} (default)" if profile.is_default else profile.id
        cells = (name, profile.model, "" if profile.label == profile.id else profile.label, profile.description)
        table.add_row(*(Text(one_line(cell, 160)) for cell in cells))
    return table
