"""roboco mcp: the MCP servers of a team."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from roboco.cli.doctor.server_tools import ListingResult, TeamServer, fetch_tools
from roboco.cli.doctor.teams import loaded_teams
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import text_table
from roboco.client.team_lookup import resolve_team
from roboco.domain.team.known_tools import missing_tools_error
from roboco.domain.team.team import Team, default_prefix
from roboco.errors import UsageError
from roboco.process.extras import require_extra
from roboco.settings import Settings, load_settings
from roboco.tools.mcp.listing import describe_left_out

MAX_CELL_CHARS: Final = 300
MAX_PARAMETERS: Final = 20


@click.group()
def mcp() -> None:
    """List the tools of MCP servers, or be one."""


@mcp.command()
def serve() -> None:
    """Serve the teams of ROBOCO_TEAMS_DIR as tools to the program that starts this command, by stdio.

    Each call is a task of running workers, with all rights of this environment. `roboco serve` does the same by HTTP,
    with keys, at /mcp.
    """
    require_extra("gateway", "roboco mcp serve")
    require_extra("mcp", "roboco mcp serve")
    server: Any = importlib.import_module("roboco.gateway.mcp.stdio")  # which imports the packages of the extras
    server.run_server()


@mcp.command()
@click.argument("server")
@click.option(
    "--team",
    metavar="TEAM",
    help="A team file, or the name of a team in ROBOCO_TEAMS_DIR; by default the only one there with SERVER.",
)
@options.as_json
def tools(server: str, team: str | None, as_json: bool) -> int:
    """List the tools of the MCP server that a team calls SERVER, also those that the team does not use.

    The command starts or reaches the server as a tools worker does: if mcp_servers of ROBOCO_ALLOWLIST allows it, in
    its sandbox, and with the variables of mcp_env alone. The exit code is 1 if the team names a tool that the server
    does not list.
    """
    settings = load_settings()
    found = TeamServer(_team_with_server(settings, team, server), server)
    answer = _list_all(settings, found)
    shown = list(_listed_tools(found, answer))
    offer = answer.offer
    mistake = missing_tools_error(found.team, server, offer.tools, offer.other_names, offer.left_out)
    if as_json:
        print_json({"tools": shown, "left_out": offer.left_out, "mistake": mistake})
    else:
        _print(Screen(sys.stdout), shown, answer, mistake)
    return FAILED if mistake else SUCCESS


def _team_with_server(settings: Settings, named: str | None, server: str) -> Team:
    """Return the team with this server. Raises UsageError if there is none, or more than one to choose from."""
    if named is not None:
        team = resolve_team(settings, named)
        if server not in team.mcp_servers:
            possible = ", ".join(map(repr, team.mcp_servers)) or "none: the team declares no servers"
            raise UsageError(f"server: team {team.name!r} has no MCP server {server[:80]!r}, possible are {possible}")
        return team
    teams = {
        name: team for name, team in loaded_teams(settings) if isinstance(team, Team) and server in team.mcp_servers
    }
    if len(teams) != 1:
        found = ", ".join(teams) or "none"
        raise UsageError(
            f"--team: name the team of MCP server {server[:80]!r}; teams of ROBOCO_TEAMS_DIR with it: {found}"
        )
    return next(iter(teams.values()))


def _list_all(settings: Settings, found: TeamServer) -> ListingResult:
    """Return all that the server lists. Raises UsageError if it does not answer, or is not allowed here."""
    whole = found.declared.model_copy(update={"tools": "all"})
    servers = found.team.mcp_servers | {found.name: whole}
    team = found.team.model_copy(update={"mcp_servers": servers})
    (answer,) = fetch_tools(settings, [TeamServer(team, found.name)])
    if answer.error:
        raise UsageError(answer.error)
    return answer


def _listed_tools(found: TeamServer, answer: ListingResult) -> Iterator[dict[str, Any]]:
    """Yield each tool as JSON. `called` is its name for agents, or None if the team does not use it."""
    declared, prefix = found.declared, default_prefix(found.name)
    for short, tool in answer.offer.tools.items():
        settings = declared.settings_of(prefix, short)
        yield {
            "name": tool.remote or short,
            "called": None if settings is None else declared.name_of(prefix, short),
            "effect": tool.effect if settings is None or settings.effect is None else settings.effect,
            "description": (
                tool.description if settings is None or settings.description is None else settings.description
            ),
            "input_schema": tool.input_schema,
        }


def _print(screen: Screen, shown: list[dict[str, Any]], answer: ListingResult, mistake: str) -> None:
    rows = (
        (one["name"], one["called"] or "-", one["effect"], _parameter_list(one["input_schema"]), one["description"])
        for one in shown
    )
    if shown:
        cells = ([one_line(cell, MAX_CELL_CHARS) for cell in row] for row in rows)
        screen.table(text_table(("tool", "agents call", "effect", "parameters", "description"), cells))
    else:
        screen.line("the server lists no tools")
    if others := [
        *map(repr, answer.offer.other_names),
        *([f"{answer.offer.unnamed_count} more"] if answer.offer.unnamed_count else []),
    ]:
        screen.line((f"not shown: {', '.join(others)}", "dim"))
    if left_out := describe_left_out(answer.offer):
        screen.line((left_out, "yellow"))
    if mistake:
        screen.line((mistake, "yellow"))


def _parameter_list(schema: dict[str, Any]) -> str:
    """Return the names of the parameters with their types; a "?" marks those that a call may leave out."""
    properties, required = schema.get("properties"), schema.get("required")
    listed = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    words = [f"{name}{'' if name in needed else '?'}: {_type_name(one)}" for name, one in listed.items()]
    more = [f"{len(words) - MAX_PARAMETERS} more"] if len(words) > MAX_PARAMETERS else []
    return ", ".join([*words[:MAX_PARAMETERS], *more]) or ("none" if isinstance(properties, dict) else "any")


def _type_name(schema: object) -> str:
    found = schema.get("type") if isinstance(schema, dict) else None
    return "|".join(map(str, found)) if isinstance(found, list) else str(found or "any")
