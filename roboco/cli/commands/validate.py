"""roboco validate: list every mistake in a team file."""

from collections.abc import Iterator
from pathlib import Path

import click

from roboco.cli.doctor.server_tools import ListingResult, fetch_tools, team_servers
from roboco.cli.doctor.teams import forbidden_tasks, missing_functions
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import SUCCESS, USAGE
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.domain.team.output_names import absent_names
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import ToolSpec
from roboco.errors import InvalidTeam
from roboco.settings import load_settings
from roboco.team_files.file import load_team
from roboco.team_files.prices import with_prices
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.mcp.listing import describe_left_out


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@options.as_json
def validate(file: Path, as_json: bool) -> int:
    """Check a team file and list every mistake.

    With ROBOCO_TOOL_MODULES set, the command also imports the functions that the file names. A warning names those
    without a description. It starts or reaches the team's MCP servers that mcp_servers of ROBOCO_ALLOWLIST allows, and
    compares the names of their tools. A server that does not answer is no mistake. The exit code is 2 if there is a
    mistake.
    """
    try:
        team, notes, warnings = _load_and_check(file)
    except InvalidTeam as error:
        if not as_json:
            raise
        found = {"code": error.code, "message": str(error), "mistakes": error.mistakes, "warnings": []}
        print_json({"valid": False} | found)
        return USAGE
    for note in notes:
        click.echo(f"note: {escape_invisible(note)}", err=True)
    if as_json:
        print_json({"valid": True, "mistakes": [], "warnings": warnings})
        return SUCCESS
    for warning in warnings:
        click.echo(f"{file}: warning: {escape_invisible(warning)}", err=True)
    names = ", ".join(agent.name for agent in team.agents)
    click.echo(f"{file}: team {team.name!r} is valid: {team.collaboration_model.type}, agents {names}")
    return SUCCESS


def _load_and_check(file: Path) -> tuple[Team, list[str], list[str]]:
    """Return the team, a note for each server whose tools are not compared, and warnings.

    Raises InvalidTeam with all mistakes.
    """
    team = with_prices(load_team(file), str(file))
    settings = load_settings()
    mistakes = [*(missing_functions(team, settings) if settings.tool_modules else ()), *forbidden_tasks(team, settings)]
    answers = fetch_tools(settings, team_servers(team)) if settings.allowlist.mcp_servers else []
    mistakes += [f"{_location(answer)}: {answer.mistake}" for answer in answers if answer.mistake]
    if mistakes:
        raise InvalidTeam(str(file), tuple(mistakes))
    notes = [f"{_location(answer)} is not compared: {answer.error}" for answer in answers if answer.error]
    warnings = [f"{_location(answer)}: {text}" for answer in answers if (text := describe_left_out(answer.offer))]
    warnings += absent_names(team)
    if settings.tool_modules:
        warnings += _missing_descriptions(team, FunctionLoader(settings.tool_modules))
    return team, notes, warnings


def _location(answer: ListingResult) -> str:
    return f"{answer.server.at}mcp_servers.{answer.server.name}.tools"


def _missing_descriptions(team: Team, functions: FunctionLoader) -> Iterator[str]:
    """Yield a warning for each tool without a description for the models."""
    for index, tool in enumerate(team.tools):
        if isinstance(tool, ToolSpec) and not (tool.description or functions.tool(tool.function).description):
            yield (
                f"tools[{index}]: tool {tool.name!r} has no description for the models: write a docstring for "
                f"{tool.function!r}, or a `description` here"
            )
