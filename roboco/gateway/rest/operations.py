"""operations: queues, workers, rate limits, switches and dead letters of the whole deployment, for operators.

    request ─► scope `operate`, all tenants ─► line `operation`: four threads ─► one server ─► JSON
                (403)                           (full or late: 503)              (silent: 503, with its name)

They concern all tenants: a key of a tenant, or of some teams, gets 403, and never a filtered answer, since a filter
with a mistake would show the work of others. Each route asks one server. If it does not answer, the others still do,
and the problem names it, because its reader is the operator. Nothing here delays the reads of tasks.
Dead letters: a requeued letter is sent before it is removed, so a process that dies in between leaves it on the list,
and a message that is sent twice has its effect once. A dismissed letter is gone. A repeated request gets 404.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from roboco.client.operator.dead_letters import may_requeue
from roboco.client.operator.operations import Overview, QueueReport, StuckPage, WorkerReport, WorkersReport
from roboco.domain.dead_letter import DeadLetter, WorkKind
from roboco.domain.rate_report import RateReport
from roboco.domain.schema import RecordModel
from roboco.domain.switch import MAX_REASON_CHARS, Switch
from roboco.errors import NotFound
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.problem import not_found
from roboco.gateway.rest.endpoints import Endpoints
from roboco.gateway.rest.models import StrictInput, TenantName
from roboco.gateway.rest.parameters import LetterId, listed_time


class OperationsOverview(Overview):
    """The deployment in numbers, and where more of it is shown."""

    flower_url: str | None
    """The address of Flower, as ROBOCO_GATEWAY_FLOWER_URL names it."""


class QueueList(RecordModel):
    """The three queues of Roboco."""

    queues: list[QueueReport]


class RateList(RecordModel):
    """Rate limits of models, at most 200."""

    rates: list[RateReport]


class DeadLetterEntry(RecordModel):
    """A dead letter without its body and headers."""

    letter_id: str
    name: str
    """The name of the Celery task of the message or work, or "?"."""
    reason: str
    time: datetime
    attempts: int
    """The number of failed attempts at the work."""
    work: WorkKind | None
    """The kind of the work, or None for a message."""
    task_id: str
    detail: str
    """The agent or the call of the work."""
    queue: str
    """The queue from which the message was removed."""
    size: int
    """Bytes of the whole body."""
    truncated: bool
    """True if the body is truncated, or is not the body of a valid message."""
    may_requeue: bool
    """False if the letter cannot be sent again. If it is true, its task may still have ended."""


class DeadLetterList(RecordModel):
    """A page of dead letters, the newest first."""

    dead_letters: list[DeadLetterEntry]
    cursor: str
    """The cursor of the next page, or "" after the last one."""


class DeadLetterDecision(RecordModel):
    """A dead letter that is off the list."""

    letter_id: str
    name: str
    """The name of the Celery task of the message or work, or "?"."""
    status: Literal["requeued", "dismissed"]


class DrainWorker(StrictInput):
    """A worker to drain."""

    worker: Annotated[str, Field(min_length=1, max_length=255)]
    """Its node name, such as `celery@host`."""
    timeout: Annotated[float | None, Field(ge=0, le=86_400)] = None
    """Seconds in which its work may end, before it is handed over; by default its ROBOCO_DRAIN_TIMEOUT."""


class SwitchOff(StrictInput):
    """Something to switch off."""

    target: Annotated[str, Field(max_length=200)]
    """KIND:NAME, with a kind of queue, tenant, team, agent, model, tool; or `agent:TEAM/NAME`."""
    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS)]
    """Why. Everyone with a task that waits sees it."""
    interrupt: bool = False
    """True to interrupt running turns and calls too, except calls of irreversible tools."""


class SwitchOn(StrictInput):
    """Something to switch on."""

    target: Annotated[str, Field(max_length=200)]
    """KIND:NAME, as it was switched off."""


class SwitchedOn(RecordModel):
    """Something that is switched on."""

    target: str
    was_off: bool


class SwitchList(RecordModel):
    """Everything that is switched off, at most 200 things."""

    switches: list[Switch]


router = Endpoints("operations")


@router.read("/operations", OperationsOverview, "Show the deployment", line="operations")
def get_operations(gateway: Gateway) -> dict[str, Any]:
    """Return the numbers of open tasks and dead letters, and the address of Flower."""
    found = gateway.orchestrator.operator.operations.overview()
    return {**found.model_dump(), "flower_url": gateway.settings.flower_url}


@router.read("/operations/queues", QueueList, "Show the queues", line="operations")
def get_queues(gateway: Gateway) -> object:
    """Return how many messages wait in each queue, and with Redis as broker, for how long."""
    return {"queues": gateway.orchestrator.operator.operations.queues()}


@router.read("/operations/workers", WorkersReport, "Show the workers", line="operations")
def get_workers(gateway: Gateway, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> WorkersReport:
    """Return the pools, and at most `limit` workers of each that have registered in 24 hours, the latest first."""
    return gateway.orchestrator.operator.operations.workers(limit)


@router.read("/operations/rates", RateList, "Show the rate limits", line="operations")
def get_rates(gateway: Gateway) -> object:
    """Return the use of the limits of models: the operator's, and those of the teams of 50 open tasks."""
    return {"rates": gateway.orchestrator.operator.operations.rates()}


@router.read("/operations/stuck", StuckPage, "List stuck tasks", line="operations")
def list_stuck_tasks(
    gateway: Gateway,
    older: Annotated[
        str | None, Query(max_length=64, description="Without progress since then: 10m, or a time in ISO 8601.")
    ] = None,
    tenant: TenantName | None = None,
    team: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Tasks that are examined.")] = 200,
    cursor: Annotated[str, Query(max_length=200, description="The cursor of the page before.")] = "",
) -> StuckPage:
    """Return the queued and running tasks that should progress and do not, with the cause of each.

    A page may be short, or even empty, and have a cursor: tasks that progress are left out. Without `older`, a task
    counts that has not progressed for twice the time after which the work of a lost worker is sent again.
    """
    return gateway.orchestrator.operator.operations.stuck(
        limit, cursor, tenant=tenant, team=team, until=listed_time(older)
    )


@router.read("/operations/dead-letters", DeadLetterList, "List dead letters", line="operations")
def list_dead_letters(
    gateway: Gateway,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: Annotated[str, Query(max_length=100, description="The cursor of the page before.")] = "",
) -> object:
    """Return a page of dead letters without their bodies, the newest first. A page is short if its letters are long."""
    page = gateway.orchestrator.operator.dead_letter_page(limit, cursor)
    return {"dead_letters": [_entry(letter) for letter in page.letters], "cursor": page.cursor}


@router.read(
    "/operations/dead-letters/{letter_id}", DeadLetter, "Show a dead letter", line="operations", statuses=(404,)
)
def get_dead_letter(gateway: Gateway, letter_id: LetterId) -> DeadLetter:
    """Return a dead letter with its headers and its body, which may hold the text of a user."""
    try:
        return gateway.orchestrator.operator.dead_letter(letter_id)
    except NotFound:
        raise _unknown_letter(letter_id) from None


@router.operate("/operations/dead-letters/{letter_id}/requeue", DeadLetterDecision, "Requeue a dead letter", (404, 409))
def requeue_dead_letter(gateway: Gateway, caller: Principal, letter_id: LetterId) -> dict[str, str]:
    """Send a dead letter again, with its attempts reset, and remove it from the list.

    After 503 it may have been sent: repeat the request. A message that is sent twice has its effect once.
    """
    try:
        letter = gateway.orchestrator.operator.requeue_dead_letter(letter_id, by=caller.by)
    except NotFound:
        raise _unknown_letter(letter_id) from None
    return {"letter_id": letter.letter_id, "name": letter.name, "status": "requeued"}


@router.operate("/operations/dead-letters/{letter_id}/dismiss", DeadLetterDecision, "Dismiss a dead letter", (404,))
def dismiss_dead_letter(gateway: Gateway, caller: Principal, letter_id: LetterId) -> dict[str, str]:
    """Delete a dead letter for good, without sending it. If its cause persists, an equal letter is stored again."""
    letter = gateway.orchestrator.operator.dismiss_dead_letter(letter_id, by=caller.by)
    if letter is None:
        raise _unknown_letter(letter_id)
    return {"letter_id": letter.letter_id, "name": letter.name, "status": "dismissed"}


@router.operate("/operations/workers/drain", WorkerReport, "Drain a worker", (404,))
def drain_worker(gateway: Gateway, caller: Principal, body: DrainWorker) -> WorkerReport:
    """Ask a live worker to drain: it takes no new work, ends with the work that it has, and exits.

    The worker sees the request within three seconds. Read the workers until it is not listed any more.
    """
    try:
        return gateway.orchestrator.operator.drain_worker(body.worker, body.timeout, by=caller.by)
    except NotFound as error:
        raise not_found(str(error), "list workers with GET /v1/operations/workers") from None


@router.read("/operations/switches", SwitchList, "List the switches", line="operations")
def list_switches(gateway: Gateway) -> object:
    """Return everything that is switched off, with the reasons."""
    return {"switches": gateway.orchestrator.operator.switches()}


@router.operate("/operations/switches/off", Switch, "Switch something off")
def switch_off(gateway: Gateway, caller: Principal, body: SwitchOff) -> Switch:
    """Switch off a queue, tenant, team, agent, model or tool: its turns and calls wait, with the reason.

    Within a second none of them begins. After 503 it may be switched off: repeat the request.
    """
    return gateway.orchestrator.operator.switch_off(body.target, body.reason, interrupt=body.interrupt, by=caller.by)


@router.operate("/operations/switches/on", SwitchedOn, "Switch something on")
def switch_on(gateway: Gateway, caller: Principal, body: SwitchOn) -> dict[str, Any]:
    """Switch it on again: its tasks continue within half a minute. A repetition changes nothing."""
    before = gateway.orchestrator.operator.switch_on(body.target, by=caller.by)
    return {"target": body.target, "was_off": before is not None}


def _entry(letter: DeadLetter) -> DeadLetterEntry:
    """Return a letter without its body and headers."""
    fields = letter.model_dump(include=set(DeadLetterEntry.model_fields))
    return DeadLetterEntry(**fields, name=letter.name, may_requeue=may_requeue(letter))


def _unknown_letter(letter_id: str) -> Exception:
    return not_found(
        f"no dead letter {letter_id!r}: it was requeued or dismissed, or never existed",
        "list dead letters with GET /v1/operations/dead-letters",
    )
