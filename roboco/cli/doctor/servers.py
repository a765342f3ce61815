"""Checks of the MCP servers of teams: they answer here, and have the tools that the teams name."""

from collections.abc import Iterable, Iterator
from typing import Final

from roboco.cli.doctor.check import CheckResult
from roboco.cli.doctor.server_tools import ListingResult, fetch_tools, team_servers
from roboco.domain.team.team import Team
from roboco.errors import RobocoError
from roboco.settings import Settings
from roboco.tools.mcp.listing import describe_left_out

MAX_LISTED: Final = 10


def check_servers(settings: Settings, teams: Iterable[Team | RobocoError | OSError]) -> Iterator[CheckResult]:
    """Check that the servers of the teams answer here, and list the tools that the teams name.

    As on a tools worker, a server is started or reached only if mcp_servers of ROBOCO_ALLOWLIST allows it.
    """
    servers = [server for team in teams if isinstance(team, Team) for server in team_servers(team)]
    for answer in fetch_tools(settings, servers):
        yield _check_server(settings, answer)


def _check_server(settings: Settings, answer: ListingResult) -> CheckResult:
    name = f"mcp {answer.server.team.name}/{answer.server.name}"
    if answer.refused:
        todo = "add to mcp_servers and mcp_env of ROBOCO_ALLOWLIST where the tools workers run, and run this there"
        return CheckResult(name, "fail" if settings.allowlist.mcp_servers else "warn", answer.error, todo)
    if answer.error:
        todo = "correct the cause in its stderr, or its address; `roboco mcp tools` asks this server alone"
        return CheckResult(name, "fail", answer.error, todo)
    if answer.mistake:
        return CheckResult(name, "fail", answer.mistake, "correct the team file; `roboco mcp tools` lists them")
    if left_out := describe_left_out(answer.offer):
        return CheckResult(name, "warn", left_out, "correct the server, or name the tools that the team needs")
    return CheckResult(name, "ok", f"lists {_tool_list(answer.names)}")


def _tool_list(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    tools = "1 tool" if len(names) == 1 else f"{len(names)} tools"
    return f"{tools}: {', '.join(names[:MAX_LISTED])}{more}" if names else "no tools"
