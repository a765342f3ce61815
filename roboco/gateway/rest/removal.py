"""removal: operators erase tasks, preview the retention, and export tasks as tar files.

    erase:  request ─► request to erase is stored ─► coordinators ─► receipt            (202 until it is complete)
    export: request ─► header, file, file, ... ─► manifest                              (one piece in memory)

All of them need the scope `operate`, without a tenant and teams. A repeated request changes nothing.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final, cast

from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from roboco.client.operator.task_removal import DEFAULT_RATE, RemovalPage
from roboco.client.options import ErasureOptions, TaskFilterOptions
from roboco.domain.memory import MAX_OWNER_CHARS, OF_TENANT, Memory
from roboco.domain.removal.erasure import ErasureReceipt, ForksChoice
from roboco.domain.schema import RecordModel
from roboco.gateway.access import Caller
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal
from roboco.gateway.rest.endpoints import Endpoints, json_response, run_operation, wait_until
from roboco.gateway.rest.models import StrictInput
from roboco.gateway.rest.parameters import MAX_WAIT, ListedTime, TaskId, listed_time
from roboco.gateway.rest.responses import problems

router = Endpoints("operations")
_TAR: Final[dict[str, Any]] = {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}


class ErasureOrder(StrictInput):
    """The options of an erasure."""

    reason: Annotated[str, Field(max_length=2000)] = ""
    """Why the task is erased; the receipt keeps it."""
    stop: bool = False
    """True to stop an open task first. Without it the erasure of an open task is refused."""
    forks: ForksChoice = "refuse"
    """The treatment of forks, whose histories contain steps of the task."""

    def options(self, by: str) -> ErasureOptions:
        """Return the options for the client library, with the caller."""
        return ErasureOptions(reason=self.reason, stop=self.stop, forks=self.forks, by=by)


class ErasuresOrder(ErasureOrder):
    """The erasure of the tasks of a page that meet all conditions; at least one is needed."""

    tenant: Annotated[str | None, Field(max_length=32)] = None
    """The tenant; "" for tasks without one."""
    team: list[Annotated[str, Field(max_length=64)]] | None = None
    status: list[Annotated[str, Field(max_length=32)]] | None = None
    """Statuses, or the groups `open`, `waiting` and `ended`."""
    since: ListedTime = None
    """The earliest last change: a time in ISO 8601, or a duration before now such as 2h."""
    until: ListedTime = None
    """The latest last change."""
    text: Annotated[str | None, Field(max_length=200)] = None
    """A part of the title."""
    dry_run: bool = True
    """True to list the tasks alone. Write false to erase them."""
    cursor: Annotated[str, Field(max_length=2000)] = ""
    """The cursor of the page before."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    """Tasks that are read for a page."""
    rate: Annotated[float, Field(ge=0.01, le=1000)] = DEFAULT_RATE
    """Tasks of the page whose erasure begins in a second."""

    def filters(self) -> TaskFilterOptions:
        """Return the conditions that are given."""
        times = {"since": listed_time(self.since), "until": listed_time(self.until)}
        names = {"tenant", "team", "status", "text"}
        return cast(TaskFilterOptions, self.model_dump(include=names, exclude_none=True) | times)


class MemoryErasure(StrictInput):
    """The owner whose memory is erased."""

    tenant: Annotated[str, Field(max_length=32)] = ""
    """The tenant; "" for tasks without one."""
    of: Annotated[str, Field(max_length=80)] = ""
    """`tenant`, or a field such as `context.user`; without it all memories of the tenant are erased."""
    value: Annotated[str, Field(max_length=MAX_OWNER_CHARS)] = ""
    """The value of the field."""
    entry: Annotated[str, Field(max_length=64)] = ""
    """The id of an entry, to erase that one alone."""


class ErasedMemory(RecordModel):
    """The effect of an erasure of a memory."""

    entries: int
    """The entries that were erased."""


@router.post(
    "/operations/erasures/{task_id}",
    response_model=ErasureReceipt,
    status_code=200,
    responses=problems(404, 409) | {202: {"model": ErasureReceipt}},
    summary="Erase a task",
)
async def erase_task(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    order: ErasureOrder | None = None,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for the end of the erasure.")] = 0,
) -> Response:
    """Erase a task for good. Return its receipt: 200 if the erasure is complete, 202 while coordinators carry it out.

    The receipt rejects whatever arrives late for the task. The same request again returns the receipt so far.
    """
    options = (order or ErasureOrder()).options(caller.by)
    receipt = await run_operation(
        gateway, caller, lambda: gateway.orchestrator.operator.erase(task_id, timeout=0, **options)
    )

    async def is_erased() -> bool:
        nonlocal receipt
        receipt = await run_operation(gateway, caller, lambda: gateway.orchestrator.operator.erasure(task_id))
        return receipt.finished_at is not None

    if receipt.finished_at is None:
        await wait_until(gateway, wait, is_erased)
    return json_response(receipt, 202 if receipt.finished_at is None else 200)


@router.read(
    "/operations/erasures/{task_id}",
    ErasureReceipt,
    "Show the receipt of an erased task",
    line="operations",
    statuses=(404,),
)
def get_erasure(gateway: Gateway, task_id: TaskId) -> ErasureReceipt:
    """Return the receipt of a task that was erased, or is being erased."""
    return gateway.orchestrator.operator.erasure(task_id)


@router.operate("/operations/erasures", RemovalPage, "Erase many tasks")
def erase_tasks(gateway: Gateway, caller: Principal, order: ErasuresOrder) -> RemovalPage:
    """Erase the ended tasks of a page of the workspace that meet all conditions; with `stop`, open ones, too.

    By default it is a preview: write `dry_run` false to erase. Repeat it with the cursor until that is empty. The list
    is read from the workspace, so it also has tasks that the task index has forgotten.
    """
    return gateway.orchestrator.operator.removal_page(
        cursor=order.cursor,
        limit=order.limit,
        dry_run=order.dry_run,
        rate=order.rate,
        options=order.options(caller.by),
        **order.filters(),
    )


@router.read("/operations/memory", Memory, "Show a memory", line="operations")
def get_memory(
    gateway: Gateway,
    of: Annotated[str, Query(max_length=80, description="`tenant`, or a field such as `context.user`.")] = OF_TENANT,
    value: Annotated[str, Query(max_length=MAX_OWNER_CHARS, description="The value of the field.")] = "",
    tenant: Annotated[str, Query(max_length=32, description='The tenant; "" for tasks without one.')] = "",
) -> Memory:
    """Return what agents remember for an owner, with the sources."""
    return gateway.orchestrator.operator.memory(of, value, tenant=tenant)


@router.operate("/operations/memory/erasure", ErasedMemory, "Erase a memory")
def erase_memory(gateway: Gateway, caller: Principal, order: MemoryErasure) -> ErasedMemory:
    """Erase an entry, or what agents remember for an owner, or for a whole tenant. The tasks stay."""
    erased = gateway.orchestrator.operator.erase_memory(**order.model_dump(), by=caller.by)
    return ErasedMemory(entries=erased)


@router.read("/operations/retention", RemovalPage, "Preview the retention", line="operations", statuses=(404,))
def preview_retention(
    gateway: Gateway,
    cursor: Annotated[str, Query(max_length=2000, description="The cursor of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> RemovalPage:
    """Return the tasks of a page that the rules of this gateway's settings would remove now."""
    return gateway.orchestrator.operator.retention_page(cursor=cursor, limit=limit)


@router.get(
    "/operations/tasks/{task_id}/export",
    response_class=Response,
    responses=problems(404, 409) | {200: {"content": _TAR}},
    summary="Export a task",
)
async def export_task(gateway: TheGateway, caller: Caller, task_id: TaskId) -> Response:
    """Return an ended task as a tar. Its last member is a manifest: a download without it was cut off."""
    pieces = await run_operation(
        gateway, caller, lambda: gateway.orchestrator.operator.export_task(task_id, by=caller.by)
    )
    disposition = f'attachment; filename="{task_id.replace(":", "_")}.tar"'
    return StreamingResponse(
        _streamed(gateway, pieces),
        headers={"Content-Disposition": disposition},
        media_type="application/x-tar",
    )


async def _streamed(gateway: Gateway, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a tar. They are read in threads, and downloads take turns, one piece each."""
    while True:
        async with gateway.pieces.hold():
            piece = await gateway.calls.files.run(lambda: next(pieces, None))
        if piece is None:
            return
        yield piece
