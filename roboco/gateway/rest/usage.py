"""usage: reports of cost, tokens and calls, of the caller's tenant, or for operators of all tenants.

    request ─► line `report` (2 at a time, 1 of an owner) ─► a hundred tasks ─► ... ─► JSON, JSON lines or CSV
                                                              └── after REPORT_SECONDS: 503
A report that takes too long has stored the usage that it has read, so that the next one reads less. The command
`roboco usage` has no such limit.
"""

import re
import time
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response
from pydantic import BeforeValidator

from roboco.client.operator.usage import UsageCollector, UsageSummary, csv_lines, json_lines
from roboco.client.options import UsageOptions
from roboco.domain.usage_table import DIMENSIONS
from roboco.gateway.access import Caller
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import unavailable
from roboco.gateway.rest.endpoints import Endpoints, as_json
from roboco.gateway.rest.parameters import ListedTeam, listed_teams, listed_tenant
from roboco.gateway.rest.responses import problems

router = Endpoints("operations")
REPORT_SECONDS: Final = 50.0
"""Seconds that a report may take: less than the time-outs of proxies."""
RETRY_SECONDS: Final = 5.0
_CONTENT_TYPES: Final = {"json": "application/json", "jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
ReportForm = Literal["json", "jsonl", "csv"]


def _written(day: object) -> object:
    """Return the day. Raise ValueError for a number, which pydantic takes for seconds."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(day)):
        raise ValueError("must be YYYY-MM-DD")
    return day


Day = Annotated[date, BeforeValidator(_written)]


@router.get(
    "/usage",
    response_model=UsageSummary,
    responses=problems() | {200: {"content": {"application/x-ndjson": {}, "text/csv": {}}}},
    summary="Report usage",
)
async def report_usage(  # noqa: PLR0913 - one parameter for each condition
    gateway: TheGateway,
    caller: Caller,
    by: Annotated[str, Query(max_length=100, description=f"Some of {','.join(DIMENSIONS)}.")] = "team,model",
    since: Annotated[Day | None, Query(description="The first day in UTC; by default 29 days before today.")] = None,
    until: Annotated[Day | None, Query(description="The last day in UTC; by default today.")] = None,
    tenant: Annotated[str | None, Query(max_length=32, description="A tenant, for a key of all tenants.")] = None,
    team: Annotated[list[ListedTeam] | None, Query(max_length=20, description="Names of teams.")] = None,
    all_tasks: Annotated[bool, Query(description="Also tasks that lists no longer show, for operators.")] = False,
    form: Annotated[ReportForm, Query(alias="format")] = "json",
) -> Response:
    """Return turns, tokens, calls and cost, summed by some dimensions, from the recorded steps.

    A key of a tenant gets the usage of that tenant, with the scope `read` or `operate`. All tenants need `operate`.
    The report holds every step that was committed before it began. After 503 repeat it, or choose fewer days.
    """
    _check_rights(caller, all_tasks)
    options = UsageOptions(
        since=since,
        until=until,
        tenant=listed_tenant(caller, tenant),
        team=listed_teams(caller, team),
        all_tasks=all_tasks,
    )
    body = await _collected(gateway, lambda: gateway.orchestrator.operator.usage_collector(by, **options), form)
    return Response(body, media_type=_CONTENT_TYPES[form])


def _check_rights(caller: Principal, all_tasks: bool) -> None:
    if caller.tenant is None or all_tasks:
        caller.require_operator()
    else:
        caller.require_any(Scope.READ, Scope.OPERATE)


async def _collected(gateway: Gateway, start: Any, form: ReportForm) -> bytes:
    """Return the body of the report. Each hundred tasks are one call, so that a silent store ends it in time."""
    line, deadline = gateway.calls.reports, time.monotonic() + REPORT_SECONDS
    collector: UsageCollector = await line.run(start)
    progress = collector.collect()
    tasks = 0
    while (read := await line.run(next, progress, None)) is not None:
        tasks = read
        if time.monotonic() > deadline:
            raise unavailable(f"the report is not complete after {tasks} tasks: choose fewer days", RETRY_SECONDS)
    return await line.run(_body, collector.report, form)


def _body(report: Any, form: ReportForm) -> bytes:
    found: UsageSummary = report()
    if form == "json":
        return as_json(found)
    return "".join(csv_lines(found) if form == "csv" else json_lines(found)).encode()
