"""bulk: one control of many tasks, a page for each request.

    request ─► scope `operate` ─► page of the caller's tasks ─► each task gets its item once ─► counts, outcomes, cursor
                (403)              (503: repeat it)              (its outcome says why not)      (lost: repeat it)

Retries and forks count against the limits of their caller, and messages and answers need some of its day left, as
single ones do; a task that is refused fails with `rate_limited`.
A request that is repeated with the same `bulk_id` or Idempotency-Key controls no task twice. So a page that takes
longer than the gateway waits is answered with 503 and can be repeated, with a smaller `limit` if need be. With the
`until` of the response before, or of a dry run, a request leaves tasks and calls that have changed since.
The audit log has a line for each task, as soon as it has its outcome: also of a page that is answered with 503.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, cast

from fastapi import Request, Response
from pydantic import Field

from roboco.client.operator.bulk import CONDITIONS
from roboco.client.operator.bulk_control import DECISIONS, BulkContent, BulkOutcome, BulkReport, ControlName
from roboco.client.options import BulkOptions
from roboco.errors import RobocoError, TransientError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import IdempotencyKey, chosen_bulk_id
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, invalid
from roboco.gateway.request_log import log_task_control
from roboco.gateway.rest.endpoints import Endpoints, json_response
from roboco.gateway.rest.models import ItemName, TenantName, Text
from roboco.gateway.rest.parameters import ListedTime, listed_teams, listed_tenant, listed_time
from roboco.gateway.rest.responses import problems
from roboco.gateway.rest.submission import chosen_team
from roboco.gateway.teams import team_of_fork

router = Endpoints("operations")
MAX_PAGE: Final = 100
"""Tasks of a page at most."""
_Status = Annotated[str, Field(max_length=64)]


class BulkRequest(FewMistakes, BulkContent):
    """A control of all tasks that meet the conditions, of which each request performs one page."""

    control: ControlName
    """The control. `interrupt` sends no message."""
    status: Annotated[list[_Status], Field(max_length=20)] = []
    """Statuses or groups of open tasks. By default those that the control may concern: for example, `resume` reaches
    paused tasks, and `retry` failed ones."""
    tenant: TenantName | None = None
    """The tenant. A key of a tenant reaches tasks of that tenant only."""
    team: Annotated[list[Annotated[str, Field(max_length=64)]] | None, Field(max_length=20)] = None
    """Names of teams."""
    since: ListedTime = None
    """The earliest change of the status: a time in ISO 8601, or a duration before now such as 2h."""
    until: ListedTime = None
    """The latest change of the status: 2h for tasks whose status has not changed for two hours."""
    text: Annotated[str | None, Field(max_length=200)] = None
    """A part of the title."""
    what_if: bool | None = None
    """True for runs of what-if alone, and false to leave them out."""
    all_tasks: bool = False
    """True to control all tasks: a request without a condition is refused otherwise."""
    message: Text | None = None
    """The message that each task gets, for `send`, or each new task, for `fork`."""
    bulk_id: ItemName | None = None
    """The id of the bulk control. The same id again controls no task twice. Leave it out with Idempotency-Key."""
    cursor: Annotated[str, Field(max_length=400)] = ""
    """The cursor of the response before, for its next page, with its `bulk_id` and `until`."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    """Tasks of a page."""
    dry_run: bool = False
    """True to count the tasks, without controlling any. Repeat it with the cursor until that is empty."""


MAX_SECONDS: Final = 30.0
"""Seconds until an admission fails: the gateway waits less for the servers that it asks."""


@router.post("/operations/bulk", response_model=BulkReport, responses=problems(), summary="Control many tasks")
async def control_tasks(
    request: Request, gateway: TheGateway, caller: Caller, body: BulkRequest, key: IdempotencyKey = None
) -> Response:
    """Stop, interrupt, pause, step, resume, retry or fork the next page of the tasks that meet the conditions, set
    their limits, send them a message, or decide the tool calls for which they wait.

    `approve`, `deny`, `answer` and `resolve` decide all calls of `tool`, or all calls, that wait when the control
    begins; they need the scope `approve`, too. `send` and `fork` need the scope `control`. A dry run of a decision
    counts the calls by tool, with the effect of the tool. Send the `until` of its response to decide these calls alone,
    also if the request is repeated: without it a decision includes the calls that were made since.
    Repeat the request with the `bulk_id`, the `until` and the cursor of its response until the cursor is empty. Tasks
    whose status changes after the first request, and new ones, are left as they are: begin again with the same
    `bulk_id` until none is accepted. A key of a tenant, or of some teams, reaches their tasks alone.
    """
    caller.require(Scope.OPERATE)
    if body.control in DECISIONS:
        caller.require(Scope.APPROVE)
    if body.control in ("send", "fork"):
        caller.require(Scope.CONTROL)
    options = _options(caller, body) | {"bulk_id": chosen_bulk_id(body.bulk_id, key, caller.tenant)}
    admit = _admission(gateway, caller, body.control)

    def log(one: BulkOutcome) -> None:
        log_task_control(request.scope, f"bulk_{body.control}", one.task_id, one.outcome)

    def control() -> BulkReport:
        team = None if body.new_team is None else chosen_team(gateway, caller, body.new_team)
        bulk = gateway.orchestrator.bulk(body.control, **cast(BulkOptions, options | {"new_team": team}))
        bulk.admit, bulk.team_of_fork = admit, partial(team_of_fork, caller)
        bulk.on_outcome = log
        return bulk.count(body.cursor) if body.dry_run else bulk.page(body.cursor, body.limit)

    report = await gateway.calls.controls.run(control)
    return json_response(report)


def _options(caller: Principal, body: BulkRequest) -> dict[str, Any]:
    """Return the options of the bulk control. Raise Problem if a condition is missing, or not allowed to the caller."""
    if not (body.all_tasks or any(getattr(body, name) for name in CONDITIONS)):
        raise invalid("no condition is given", "name tenant, team, status, since, until or text, or set all_tasks")
    return {name: getattr(body, name) for name in (*CONDITIONS, *BulkContent.model_fields, "all_tasks")} | {
        "tenant": listed_tenant(caller, body.tenant),
        "team": listed_teams(caller, body.team),
        "since": listed_time(body.since),
        "until": listed_time(body.until),
        "limits": None if body.limits is None else body.limits.overrides(),
        "by": caller.by,
    }


def _admission(gateway: Gateway, caller: Principal, control: str) -> Callable[[str], None]:
    """Return the function with which a thread admits a task, as one request is. Call this in the event loop.

    It raises RobocoError with the code of the Problem. What was accepted before is not asked again.
    """
    loop = asyncio.get_running_loop()

    def admit(task_id: str) -> None:
        if control in ("retry", "fork"):
            admission = gateway.limits.create_task(caller, caller.task_id(task_id))
        elif control in ("send", "answer"):
            admission = gateway.admit_message(caller, lambda: False)
        else:
            return
        try:
            asyncio.run_coroutine_threadsafe(admission, loop).result(MAX_SECONDS)
        except Problem as refused:
            error = RobocoError(f"{refused.detail}: {refused.remedy}")
            error.code = refused.code
            raise error from refused
        except TimeoutError:
            raise TransientError("the limits of the caller cannot be read") from None

    return admit
