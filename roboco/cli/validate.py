"""roboco validate: every mistake in a team file."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from roboco.adapters.functions import Functions
from roboco.adapters.team_file import load_team
from roboco.cli import options
from roboco.domain.collaboration import Custom
from roboco.domain.team import Team
from roboco.errors import RobocoError, TeamError
from roboco.settings import Settings, read_settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@options.as_json
def validate(file: Path, as_json: bool) -> int:
    """Check a team file: every mistake at once, and exit code 2.

    With ROBOCO_TOOLS set, the functions that it names are imported too.
    """
    try:
        team = _checked(file)
    except TeamError as error:
        if not as_json:
            raise
        click.echo(json.dumps({"valid": False, "mistakes": list(error.mistakes)}, indent=2))
        return 2
    names = ", ".join(agent.name for agent in team.agents)
    told = f"{file}: team {team.name!r} is valid: {team.collaboration_model.type}, agents {names}"
    click.echo(json.dumps({"valid": True, "mistakes": []}, indent=2) if as_json else told)
    return 0


def _checked(file: Path) -> Team:
    team = load_team(file)
    settings = read_settings()
    if settings.tools and (mistakes := tuple(missing_functions(team, settings))):
        raise TeamError(str(file), mistakes)
    return team


def missing_functions(team: Team, settings: Settings) -> Iterator[str]:
    """The functions that the team names and that cannot be had here, as mistakes of its file."""
    sys.path.insert(0, str(Path.cwd()))  # as it is for a worker
    functions = Functions(settings.tools)
    for index, tool in enumerate(team.tools):
        yield from _mistake(f"tools[{index}].function", functions.tool, tool.function)
    if isinstance(model := team.collaboration_model, Custom):
        yield from _mistake("collaboration_model.router", functions.router, model.router)


def _mistake(at: str, find: Callable[[str], object], name: str) -> Iterator[str]:
    try:
        find(name)
    except RobocoError as error:
        yield f"{at}: {error}"
    except Exception as error:  # a module of the user's may fail in any way when it is imported
        yield f"{at}: function {name!r} cannot be imported: {error!r}"
