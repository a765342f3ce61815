"""operations: queues, workers, rate limits, switches and dead letters of the whole deployment, for operators.

    request ─► scope `operate`, all tenants ─► line `operation`: four threads ─► one server ─► JSON
                (403)                           (full or late: 503)              (silent: 503, with its name)

They concern all tenants: a key of a tenant, or of some teams, gets 403, and never a filtered answer, since a filter
with a mistake would show the work of others. Each route asks one server. If it does not answer, the others still do,
and the problem names it, because its reader is the operator. Nothing here delays the reads of tasks.
Dead letters: a requeued letter is sent before it is removed, so a process that dies in between leaves it on the list,
and a message that is sent twice has its effect once. A dismissed letter is gone. A repeated request gets 404.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from roboco.client.operator.dead_letters import may_requeue
from roboco.client.operator.operations import WorkerReport, WorkersReport
from roboco.client.operator.stuck import StuckPage
from roboco.client.options import TaskFilterOptions
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.rate_report import RateReport
from roboco.domain.switch import Switch
from roboco.domain.task_filter import parse_time
from roboco.errors import NotFound
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import TheGateway
from roboco.gateway.problem import not_found
from roboco.gateway.rest.answers import as_json
from roboco.gateway.rest.models import TenantName
from roboco.gateway.rest.operation_models import (
    DeadLetterDecision,
    DeadLetterEntry,
    DeadLetterList,
    DrainWorker,
    OperationsOverview,
    QueueList,
    RateList,
    SwitchedOn,
    SwitchList,
    SwitchOff,
    SwitchOn,
)
from roboco.gateway.rest.operator_calls import read_operation as _read
from roboco.gateway.rest.operator_calls import run_operation as _run
from roboco.gateway.rest.parameters import LetterId
from roboco.gateway.rest.responses import problems, readable

router = APIRouter(route_class=StrictJsonRoute, tags=["operations"])


@router.get("/operations", response_model=OperationsOverview, responses=readable(), summary="Show the deployment")
async def get_operations(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Return the numbers of open tasks and dead letters, and the address of Flower."""

    def read() -> dict[str, Any]:
        found = gateway.orchestrator.operator.operations.overview()
        return {**found.model_dump(), "flower_url": gateway.settings.flower_url}

    return await _read(request, gateway, caller, read)


@router.get("/operations/queues", response_model=QueueList, responses=readable(), summary="Show the queues")
async def get_queues(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Return how many messages wait in each queue, and with Redis as broker, for how long."""
    return await _read(request, gateway, caller, lambda: {"queues": gateway.orchestrator.operator.operations.queues()})


@router.get("/operations/workers", response_model=WorkersReport, responses=readable(), summary="Show the workers")
async def get_workers(
    request: Request, gateway: TheGateway, caller: Caller, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> Response:
    """Return the pools, and at most `limit` workers of each that have registered in 24 hours, the latest first."""
    return await _read(request, gateway, caller, lambda: gateway.orchestrator.operator.operations.workers(limit))


@router.get("/operations/rates", response_model=RateList, responses=readable(), summary="Show the rate limits")
async def get_rates(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Return the use of the limits of models: the operator's, and those of the teams of 50 open tasks."""

    def read() -> dict[str, list[RateReport]]:
        return {"rates": gateway.orchestrator.operator.operations.rates()}

    return await _read(request, gateway, caller, read)


@router.get("/operations/stuck", response_model=StuckPage, responses=readable(), summary="List stuck tasks")
async def list_stuck_tasks(  # noqa: PLR0913 - one parameter for each condition
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    older: Annotated[
        str | None, Query(max_length=64, description="Without progress since then: 10m, or a time in ISO 8601.")
    ] = None,
    tenant: TenantName | None = None,
    team: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Tasks that are examined.")] = 200,
    cursor: Annotated[str, Query(max_length=200, description="The cursor of the page before.")] = "",
) -> Response:
    """Return the queued and running tasks that should progress and do not, with the cause of each.

    A page may be short, or even empty, and have a cursor: tasks that progress are left out. Without `older`, a task
    counts that has not progressed for twice the time after which the work of a lost worker is sent again.
    """
    until = None if older is None else parse_time(older, datetime.now(UTC))
    filters = TaskFilterOptions(tenant=tenant, team=team, until=until)
    return await _read(
        request, gateway, caller, lambda: gateway.orchestrator.operator.operations.stuck(limit, cursor, **filters)
    )


@router.get(
    "/operations/dead-letters", response_model=DeadLetterList, responses=readable(), summary="List dead letters"
)
async def list_dead_letters(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: Annotated[str, Query(max_length=100, description="The cursor of the page before.")] = "",
) -> Response:
    """Return a page of dead letters without their bodies, the newest first. A page is short if its letters are long."""

    def read() -> dict[str, Any]:
        page = gateway.orchestrator.operator.dead_letter_page(limit, cursor)
        return {"dead_letters": [_entry(letter) for letter in page.letters], "cursor": page.cursor}

    return await _read(request, gateway, caller, read)


@router.get(
    "/operations/dead-letters/{letter_id}",
    response_model=DeadLetter,
    responses=readable(404),
    summary="Show a dead letter",
)
async def get_dead_letter(request: Request, gateway: TheGateway, caller: Caller, letter_id: LetterId) -> Response:
    """Return a dead letter with its headers and its body, which may hold the text of a user."""

    def read() -> DeadLetter:
        try:
            return gateway.orchestrator.operator.dead_letter(letter_id)
        except NotFound:
            raise _unknown_letter(letter_id) from None

    return await _read(request, gateway, caller, read)


@router.post(
    "/operations/dead-letters/{letter_id}/requeue",
    response_model=DeadLetterDecision,
    responses=problems(404, 409),
    summary="Requeue a dead letter",
)
async def requeue_dead_letter(gateway: TheGateway, caller: Caller, letter_id: LetterId) -> Response:
    """Send a dead letter again, with its attempts reset, and remove it from the list.

    After 503 it may have been sent: repeat the request. A message that is sent twice has its effect once.
    """

    def requeue() -> dict[str, str]:
        try:
            letter = gateway.orchestrator.operator.requeue_dead_letter(letter_id, by=caller.by)
        except NotFound:
            raise _unknown_letter(letter_id) from None
        return {"letter_id": letter.letter_id, "name": letter.name, "status": "requeued"}

    return Response(as_json(await _run(gateway, caller, requeue)), media_type="application/json")


@router.post(
    "/operations/dead-letters/{letter_id}/dismiss",
    response_model=DeadLetterDecision,
    responses=problems(404),
    summary="Dismiss a dead letter",
)
async def dismiss_dead_letter(gateway: TheGateway, caller: Caller, letter_id: LetterId) -> Response:
    """Delete a dead letter for good, without sending it. If its cause persists, an equal letter is stored again."""

    def dismiss() -> dict[str, str]:
        letter = gateway.orchestrator.operator.dismiss_dead_letter(letter_id, by=caller.by)
        if letter is None:
            raise _unknown_letter(letter_id)
        return {"letter_id": letter.letter_id, "name": letter.name, "status": "dismissed"}

    return Response(as_json(await _run(gateway, caller, dismiss)), media_type="application/json")


@router.post(
    "/operations/workers/drain", response_model=WorkerReport, responses=problems(404), summary="Drain a worker"
)
async def drain_worker(gateway: TheGateway, caller: Caller, body: DrainWorker) -> Response:
    """Ask a live worker to drain: it takes no new work, ends with the work that it has, and exits.

    The worker sees the request within three seconds. Read the workers until it is not listed any more.
    """

    def drain() -> WorkerReport:
        try:
            return gateway.orchestrator.operator.drain_worker(body.worker, body.timeout, by=caller.by)
        except NotFound as error:
            raise not_found(str(error), "list workers with GET /v1/operations/workers") from None

    return Response(as_json(await _run(gateway, caller, drain)), media_type="application/json")


@router.get("/operations/switches", response_model=SwitchList, responses=readable(), summary="List the switches")
async def list_switches(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Return everything that is switched off, with the reasons."""
    return await _read(request, gateway, caller, lambda: {"switches": gateway.orchestrator.operator.switches()})


@router.post("/operations/switches/off", response_model=Switch, responses=problems(), summary="Switch something off")
async def switch_off(gateway: TheGateway, caller: Caller, body: SwitchOff) -> Response:
    """Switch off a queue, tenant, team, agent, model or tool: its turns and calls wait, with the reason.

    Within a second none of them begins. After 503 it may be switched off: repeat the request.
    """

    def off() -> Switch:
        return gateway.orchestrator.operator.switch_off(
            body.target, body.reason, interrupt=body.interrupt, by=caller.by
        )

    return Response(as_json(await _run(gateway, caller, off)), media_type="application/json")


@router.post("/operations/switches/on", response_model=SwitchedOn, responses=problems(), summary="Switch something on")
async def switch_on(gateway: TheGateway, caller: Caller, body: SwitchOn) -> Response:
    """Switch it on again: its tasks continue within half a minute. A repetition changes nothing."""

    def on() -> dict[str, Any]:
        before = gateway.orchestrator.operator.switch_on(body.target, by=caller.by)
        return {"target": body.target, "was_off": before is not None}

    return Response(as_json(await _run(gateway, caller, on)), media_type="application/json")


def _entry(letter: DeadLetter) -> DeadLetterEntry:
    """Return a letter without its body and headers."""
    fields = letter.model_dump(include=set(DeadLetterEntry.model_fields))
    return DeadLetterEntry(**fields, name=letter.name, may_requeue=may_requeue(letter))


def _unknown_letter(letter_id: str) -> Exception:
    return not_found(
        f"no dead letter {letter_id!r}: it was requeued or dismissed, or never existed",
        "list dead letters with GET /v1/operations/dead-letters",
    )
