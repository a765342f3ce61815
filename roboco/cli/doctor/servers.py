"""Checks of the MCP servers of teams: they answer here, and have the tools that the teams name."""

from collections.abc import Iterable, Iterator
from typing import Final

from roboco.adapters.mcp.listed import names_left_out
from roboco.cli.doctor.asked_servers import Answer, ask_servers, servers_in
from roboco.cli.doctor.check import Check
from roboco.domain.team.team import Team
from roboco.errors import RobocoError
from roboco.settings import Settings

MAX_LISTED: Final = 10


def check_servers(settings: Settings, teams: Iterable[Team | RobocoError | OSError]) -> Iterator[Check]:
    """Check that the servers of the teams answer here, and list the tools that the teams name.

    As on a tools worker, a server is started or reached only if ROBOCO_ALLOWED_MCP_SERVERS allows it.
    """
    servers = [server for team in teams if isinstance(team, Team) for server in servers_in(team)]
    for answer in ask_servers(settings, servers):
        yield _check(settings, answer)


def _check(settings: Settings, answer: Answer) -> Check:
    name = f"mcp {answer.server.team.name}/{answer.server.name}"
    if answer.refused:
        todo = (
            "set ROBOCO_ALLOWED_MCP_SERVERS and ROBOCO_ALLOWED_MCP_ENV where the tools workers run, and run this there"
        )
        return Check(name, "fail" if settings.allowed_mcp_servers else "warn", answer.error, todo)
    if answer.error:
        todo = "correct the cause in its stderr, or its address; `roboco mcp tools` asks this server alone"
        return Check(name, "fail", answer.error, todo)
    if answer.mistake:
        return Check(name, "fail", answer.mistake, "correct the team file; `roboco mcp tools` lists them")
    called = {remote: answer.offer.tools[remote] for remote in answer.names}
    if answer.server.declared.takes_all and (left_out := names_left_out(called, answer.offer)):
        return Check(name, "warn", left_out, "choose a shorter prefix, or name the tools that the team needs")
    return Check(name, "ok", f"lists {_counted(answer.names)}")


def _counted(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    tools = "1 tool" if len(names) == 1 else f"{len(names)} tools"
    return f"{tools}: {', '.join(names[:MAX_LISTED])}{more}" if names else "no tools"
