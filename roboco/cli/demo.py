"""roboco demo: a shipped team at work, for a first look."""

from importlib import resources

import click
import yaml

from roboco.adapters.team_file import team_from
from roboco.cli import options
from roboco.cli.run_team import Wish, run_team

TEAM = resources.files("roboco.cli") / "teams" / "demo.yaml"


@click.command()
@click.argument("topic", default="the sea at night")
@options.as_json
def demo(topic: str, as_json: bool) -> int:
    """Let a writer and a critic work on TOPIC.

    It needs no server and no key; with OPENAI_API_KEY it uses that. On a terminal Ctrl-C asks for a message and
    interrupts with it; twice stops.
    """
    team = team_from(yaml.safe_load(TEAM.read_text(encoding="utf-8")), "demo.yaml")
    return run_team(team, Wish(f"Write a short paragraph about {topic}.", as_json=as_json))
