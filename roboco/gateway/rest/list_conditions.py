"""list_conditions: the tenant, the teams and the times of a list or a report, within those that the caller reaches."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import Field

from roboco.domain.task_filter import parse_time
from roboco.gateway.principal import Principal
from roboco.gateway.problem import forbidden

ListedTeam = Annotated[str, Query(max_length=64)]
ListedTime = Annotated[str | None, Field(max_length=64)]


def listed_tenant(caller: Principal, tenant: str | None) -> str | None:
    """Return the tenant whose tasks are listed. Raise Problem `forbidden` for another one than the caller's."""
    if caller.tenant is not None and tenant not in (None, caller.tenant):
        raise forbidden("this key lists the tasks of one tenant alone", "leave tenant out")
    return tenant if caller.tenant is None else caller.tenant


def listed_teams(caller: Principal, teams: list[str] | None) -> list[str] | None:
    """Return the teams whose tasks are listed, or None for all. Teams that the caller may not use are left out."""
    if caller.teams is None:
        return teams or None
    return sorted(caller.teams.intersection(teams) if teams else caller.teams)


def listed_time(text: str | None) -> datetime | None:
    """Return the time of a condition, such as 2h for two hours before now."""
    return None if text is None else parse_time(text, datetime.now(UTC))
