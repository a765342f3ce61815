"""parameters: the parts of addresses and queries that several routes share, within those that the caller reaches."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import Field

from roboco.domain.history.part import ARTIFACT_NAME
from roboco.domain.task_filter import parse_time
from roboco.gateway.principal import Principal
from roboco.gateway.problem import forbidden, invalid

MAX_WAIT: Final = 20.0
"""Seconds that a request waits for an effect: less than the time-outs of proxies and clients."""
TASK_PATTERN: Final = r"^([a-z0-9][a-z0-9_-]{0,31}:)?[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
ITEM_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise Problem `invalid` if the query has a parameter that the route does not know, such as a misspelt filter."""
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    known = set(_query_parameters(route.dependant))
    if unknown := sorted(set(request.query_params) - known):
        possible = ", ".join(sorted(known)) or "none"
        raise invalid(f"query: no parameter {unknown[0][:80]!r}", f"possible are {possible}", 422)


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the query parameters of a route and of its dependencies."""
    yield from (field.alias for field in dependant.query_params)
    for deeper in dependant.dependencies:
        yield from _query_parameters(deeper)


TaskId = Annotated[str, Path(pattern=TASK_PATTERN, description="The id of the task.", examples=["k_3f5a"])]
CallId = Annotated[str, Path(pattern=ITEM_PATTERN, description="The id of the tool call.", examples=["tc_81f2"])]
ItemId = Annotated[str, Path(pattern=ITEM_PATTERN, description="The id of the item.", examples=["m1"])]
LetterId = Annotated[
    str, Path(pattern=ITEM_PATTERN, description="The id of the dead letter.", examples=["dead_3f5a81f20c6b7d94"])
]
FileName = Annotated[
    str, Path(pattern=f"^{ARTIFACT_NAME.pattern}$", description="The name of the file.", examples=["report.md"])
]
NewName = Annotated[str, Query(alias="name", pattern=f"^{ARTIFACT_NAME.pattern}$", examples=["report.md"])]
TeamName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="The name of the team.", examples=["desk"])
]
WaitSeconds = Annotated[
    float,
    Query(
        alias="wait",
        ge=0,
        le=MAX_WAIT,
        description="Seconds to wait for the effect. The response is the state by then.",
        examples=[5],
    ),
]


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
