"""removal: operators erase tasks, preview the retention, and move tasks as tar files.

    erase:  request ─► request to erase is stored ─► coordinators ─► receipt            (202 until it is complete)
    export: request ─► header, file, file, ... ─► manifest                              (one piece in memory)
    import: body ─► temporary file ─► verified by a process ─► stored                    (nothing is stored before)

All of them need the scope `operate`, without a tenant and teams. A repeated request changes nothing.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Annotated, Any, BinaryIO, Final, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from roboco.client.operator.task_removal import DEFAULT_RATE, FIRST_WAIT, RemovalPage
from roboco.client.operator.task_removal import MAX_WAIT as MAX_PAUSE
from roboco.client.options import ErasureOptions, TaskFilterOptions
from roboco.domain.removal.erasure import ErasureReceipt, ForksChoice
from roboco.domain.schema import InputModel
from roboco.domain.task_summary import TaskSummary
from roboco.gateway.access import Caller
from roboco.gateway.bodies.mistakes import FewMistakes
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.rest.answers import as_json
from roboco.gateway.rest.operator_calls import read_operation, run_operation
from roboco.gateway.rest.parameters import MAX_WAIT, TaskId
from roboco.gateway.rest.responses import problems, readable
from roboco.gateway.rest.upload_body import UploadBody, too_large

router = APIRouter(route_class=StrictJsonRoute, tags=["operations"])
PIECE_BYTES: Final = 1024 * 1024
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_TAR: Final[dict[str, Any]] = {"application/x-tar": _BINARY}


class ErasureOrder(FewMistakes, InputModel):
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
    since: datetime | None = None
    """The earliest time of the last change, with a time zone."""
    until: datetime | None = None
    """The latest time of the last change, with a time zone."""
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
        known = {name: getattr(self, name) for name in ("tenant", "team", "status", "since", "until", "text")}
        return cast(TaskFilterOptions, {name: value for name, value in known.items() if value is not None})


@router.post(
    "/operations/erasures/{task_id}",
    response_model=ErasureReceipt,
    status_code=200,
    responses=problems(404, 409, 413) | {202: {"model": ErasureReceipt}},
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
    end, pause = time.monotonic() + wait, FIRST_WAIT
    while receipt.finished_at is None and time.monotonic() < end:  # no thread of the line waits
        await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(MAX_PAUSE, 2 * pause)
        receipt = await run_operation(gateway, caller, lambda: gateway.orchestrator.operator.erasure(task_id))
    status = 202 if receipt.finished_at is None else 200
    return Response(as_json(receipt), status, media_type="application/json")


@router.get(
    "/operations/erasures/{task_id}",
    response_model=ErasureReceipt,
    responses=readable(404),
    summary="Show the receipt of an erased task",
)
async def get_erasure(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId) -> Response:
    """Return the receipt of a task that was erased, or is being erased."""
    return await read_operation(request, gateway, caller, lambda: gateway.orchestrator.operator.erasure(task_id))


@router.post(
    "/operations/erasures",
    response_model=RemovalPage,
    responses=problems(413),
    summary="Erase many tasks",
)
async def erase_tasks(gateway: TheGateway, caller: Caller, order: ErasuresOrder) -> Response:
    """Erase the ended tasks of a page of the workspace that meet all conditions; with `stop`, open ones, too.

    By default it is a preview: write `dry_run` false to erase. Repeat it with the cursor until that is empty. The list
    is read from the workspace, so it also has tasks that the task index has forgotten.
    """

    def erase() -> RemovalPage:
        return gateway.orchestrator.operator.removal_page(
            cursor=order.cursor,
            limit=order.limit,
            dry_run=order.dry_run,
            rate=order.rate,
            options=order.options(caller.by),
            **order.filters(),
        )

    return Response(as_json(await run_operation(gateway, caller, erase)), media_type="application/json")


@router.get(
    "/operations/retention",
    response_model=RemovalPage,
    responses=readable(404),
    summary="Preview the retention",
)
async def preview_retention(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    cursor: Annotated[str, Query(max_length=2000, description="The cursor of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """Return the tasks of a page that the rules of this gateway's settings would remove now."""
    return await read_operation(
        request, gateway, caller, lambda: gateway.orchestrator.operator.retention_page(cursor=cursor, limit=limit)
    )


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
        headers={"Content-Disposition": disposition, "Cache-Control": "no-store"},
        media_type="application/x-tar",
    )


@router.post(
    "/operations/import",
    response_model=TaskSummary,
    status_code=201,
    responses=problems(408, 409, 410, 413),
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY}}},
    summary="Import a task",
)
async def import_task(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Store the task of a tar that was exported. The whole tar is verified before anything is stored."""
    caller.require_operator()
    limit = gateway.settings.max_upload
    if (length := request.headers.get("content-length", "")).isdecimal() and int(length[:20]) > limit:
        raise too_large(limit)
    body = UploadBody(request.stream(), limit)

    def store() -> TaskSummary:
        with tempfile.TemporaryFile() as file:
            while piece := body.read(PIECE_BYTES):
                file.write(piece)
            return gateway.orchestrator.operator.import_task(cast(BinaryIO, file), by=caller.by)

    with gateway.calls.upload_shares.hold(caller.owner):
        summary = await gateway.calls.uploads.run(store)
    return Response(as_json(summary), 201, {"Location": f"/v1/tasks/{summary.task_id}"}, "application/json")


async def _streamed(gateway: Gateway, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a tar. They are read in threads, and downloads take turns, one piece each."""
    while True:
        async with gateway.pieces.hold():
            piece = await gateway.calls.files.run(lambda: next(pieces, None))
        if piece is None:
            return
        yield piece
