"""teams: the teams that a caller may use, and the team of a new task. All protocols share this.

    name, never a path ─► the caller's teams (404) ─► file ─► within the caller's budget ─► client library

A broken file is the operator's matter. A repetition uses the team that the first request has frozen, so that a team
file may change between both.
"""

import logging
from collections.abc import Iterator

from roboco.client.orchestrator import Orchestrator
from roboco.domain.team.team import UTILITY, Team
from roboco.errors import InvalidTeam, UsageError
from roboco.gateway.budget import limited_team
from roboco.gateway.idempotency import NewTaskId
from roboco.gateway.principal import Principal
from roboco.gateway.problem import Problem, not_found

_log = logging.getLogger(__name__)


def named_team(orchestrator: Orchestrator, caller: Principal, name: str) -> Team:
    """Return the team of this name, never of a path. Raise Problem if it is unknown, not allowed, or broken.

    `desk:utility` is the utility model of the team `desk`.
    """
    whole, of_utility, utility = name.partition(":")
    if caller.teams is not None and whole not in caller.teams:
        raise _unknown_team(name)
    try:
        team = orchestrator.sent_team(whole)
    except InvalidTeam as error:
        _log.warning("team %r cannot be used: %s", name, error)
        remedy = f"an operator runs `roboco validate` on the file of team {name[:64]}"
        raise Problem(500, "invalid_team", f"the file of team {name[:64]!r} has mistakes", remedy) from error
    except UsageError:
        raise _unknown_team(name) from None
    if not of_utility:
        return team
    found = team.utility(caller.utility_model)
    if utility != UTILITY or found is None:
        raise _unknown_team(name)
    return found


def model_names(orchestrator: Orchestrator, caller: Principal) -> list[str]:
    """Return the names of the teams that the caller may use, and of their utility models. Each file is read."""
    teams = {name: team.utility(caller.utility_model) for name, team in usable_teams(orchestrator, caller)}
    names = team_names(orchestrator, caller)
    return [*names, *(f"{name}:{UTILITY}" for name in names if teams.get(name) is not None)]


def team_names(orchestrator: Orchestrator, caller: Principal) -> list[str]:
    """Return the names of the teams that the caller may use, sorted. No file is read."""
    return [name for name in orchestrator.team_names() if caller.teams is None or name in caller.teams]


def usable_teams(orchestrator: Orchestrator, caller: Principal) -> Iterator[tuple[str, Team]]:
    """Yield the teams that the caller may use, each with its name. A team whose file has mistakes is left out."""
    for name in team_names(orchestrator, caller):
        try:
            yield name, named_team(orchestrator, caller, name)
        except Problem:
            continue  # named_team has logged it


def team_of_new_task(orchestrator: Orchestrator, caller: Principal, new: NewTaskId, name: str) -> Team:
    """Return the team of this name within the caller's budget, or as an earlier request for the task has frozen it."""
    team = named_team(orchestrator, caller, name)
    if new.repeatable and (frozen := frozen_team(orchestrator, new.task_id)) is not None and frozen.name == team.name:
        return frozen
    return limited_team(caller, team)


def team_of_fork(caller: Principal, source: Team, wanted: Team | None = None) -> Team | None:
    """Return the team of a fork within the caller's budget, or None if it is the team of its source as it is."""
    limited = limited_team(caller, wanted or source)
    return None if limited is source else limited


def frozen_team(orchestrator: Orchestrator, task_id: str) -> Team | None:
    """Return the team with which a task was submitted, or None if there is no such task."""
    try:
        return orchestrator.task(task_id).team()
    except UsageError:
        return None


def _unknown_team(name: str) -> Problem:
    return not_found(f"no team {name[:64]!r}", "list teams with GET /v1/teams")
