"""files: the files of a task, up and down, in pieces.

    up:    client ─► UploadBody ─► thread ─► store, under a name that no reader knows ─► version ─► its place
    down:  store ─► thread: one piece ─► event loop ─► client, which takes it before the next piece is read

A piece that cannot be read ends the connection before all bytes are sent: the client sees that its file is incomplete.

Agents and users write files, so their content is hostile input. A file is an attachment, a browser must not guess its
type, and a document in it has an origin without rights. Types that a browser can run, such as HTML and SVG, are sent as
plain bytes; the list of files has the true type.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final, cast

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from roboco.client.task import Task
from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.gateway.access import Caller
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found
from roboco.gateway.rest.endpoints import PRIVATE, Endpoints, as_json, has_match
from roboco.gateway.rest.models import FileList
from roboco.gateway.rest.parameters import FileName, NewName, TaskId
from roboco.gateway.rest.responses import problems, readable
from roboco.gateway.rest.upload_body import uploaded_body

router = Endpoints("files")
PIECE_BYTES: Final = 256 * 1024
"""Bytes that are read from the store at a time."""
_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
_CONTENT: Final = {"application/octet-stream": _BINARY, "*/*": _BINARY}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The whole file.", "content": _CONTENT},
    206: {"description": "The range of the file that Content-Range names.", "content": _CONTENT},
    307: {"description": "The file at the S3 store, in the header Location."},
}
_STORES: Final[dict[str, Any]] = {
    "status_code": 201,
    "response_model": Artifact,
    "responses": problems(404, 408, 409),
    "openapi_extra": {"requestBody": {"content": {"application/octet-stream": _BINARY}}},
}
SAFE_TYPES: Final = frozenset(
    {"application/json", "application/jsonl", "application/pdf", "application/zip"}
    | {f"image/{name}" for name in ("gif", "jpeg", "png", "webp")}
    | {f"text/{name}" for name in ("csv", "markdown", "plain")}
)
"""Types that are sent as they are, beside audio and video."""
_UNKNOWN_TYPE: Final = "application/octet-stream"
_MEDIA: Final = re.compile(r"(audio|video)/[a-z0-9][a-z0-9.+-]{0,126}")
"""Agents declare types: anything else in one, such as a line break, would be another header."""


@router.read("/tasks/{task_id}/files", FileList, "List files", statuses=(404,))
def list_files(
    gateway: Gateway,
    caller: Principal,
    task_id: TaskId,
    after: Annotated[str, Query(max_length=128, description="The last name of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
) -> object:
    """Return the task's files by name, with their types, sizes, digests and versions. `next` is for `after`.

    Of a task that is not submitted yet, this returns the files that the same caller has uploaded.
    """
    found = gateway.orchestrator.early_files(caller.task_id(task_id), caller.by, after, limit)
    if found is None:
        found = gateway.find_task(caller, task_id).artifact_page(after, limit)
    return {"files": found, "next": found[-1].name if len(found) == limit else None}


@router.put("/tasks/{task_id}/files/{name}", summary="Upload a file", **_STORES)
async def put_file(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, name: FileName) -> Response:
    """Store the body as a file of the task, which need not be created yet. A message names it in `artifacts`.

    Files of a task that is not created belong to their caller: only a task of the same caller gets them, they count
    among its open tasks, and a day after the last upload they are removed.

    If the task has another file of this name, both stay, and the response has the name of the new version. An upload
    that fails leaves nothing.
    """
    return await _stored(request, gateway, caller, task_id, name)


@router.post("/tasks/{task_id}/files", summary="Upload a file whose name is in the query", **_STORES)
async def post_file(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, name: NewName) -> Response:
    """Do the same as PUT of a file with this name."""
    return await _stored(request, gateway, caller, task_id, name)


async def _stored(request: Request, gateway: Gateway, caller: Principal, task_id: str, name: str) -> Response:
    caller.require_any(Scope.SUBMIT, Scope.CONTROL)
    body = uploaded_body(request, gateway.settings.max_upload)

    def store() -> Artifact:
        return gateway.orchestrator.upload(whole_id, cast(BinaryIO, body), name, by=caller.by)

    whole_id, is_unused = await gateway.calls.reads.run(_upload_target, gateway, caller, task_id)
    if is_unused:
        await gateway.limits.create_task(caller, whole_id)
    file = await gateway.calls.uploads.run(store)
    headers = {"Location": f"/v1/tasks/{task_id}/files/{file.name}", "ETag": file_etag(file)}
    return Response(as_json(file), 201, headers, "application/json")


@router.get(
    "/tasks/{task_id}/files/{name}",
    response_class=Response,
    responses=_FILE | readable(404, 416),
    summary="Download a file",
)
async def get_file(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    name: FileName,
    redirect: Annotated[
        bool, Query(description="Redirect to the S3 store, if the operator allows it (ROBOCO_GATEWAY_LINK_SECONDS).")
    ] = False,
) -> Response:
    """Return the bytes of a file, or the part that the header Range names (one range of bytes, also with If-Range)."""
    caller.require(Scope.READ)
    task, file = await _find(gateway, caller, task_id, name)
    seconds = gateway.settings.link_seconds
    if redirect and seconds:
        url = await gateway.calls.files.run(task.artifact_url, name, seconds)
        if url is not None:
            return Response(status_code=307, headers={"Location": url})
    etag, headers, asked = file_etag(file), file_headers(file), request.headers
    if has_match(asked.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    part = requested_range(asked.get("range"), asked.get("if-range"), etag, file.size)
    status, start, length = (200, 0, file.size) if part is None else (206, part.start, part.length)
    headers["Content-Length"] = str(length)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{file.size}"
    return StreamingResponse(_pieces(gateway, task, name, start, length), status, headers)


@router.head(
    "/tasks/{task_id}/files/{name}",
    response_class=Response,
    responses=readable(404),
    summary="Show the headers of a file",
)
async def head_file(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, name: FileName) -> Response:
    """Return the headers of a file: its size, type and entity tag. The header Range has no meaning here."""
    caller.require(Scope.READ)
    _, file = await _find(gateway, caller, task_id, name)
    status = 304 if has_match(request.headers.get("if-none-match"), file_etag(file)) else 200
    return Response(status_code=status, headers=file_headers(file) | {"Content-Length": str(file.size)})


async def _find(gateway: Gateway, caller: Principal, task_id: str, name: str) -> tuple[Task, Artifact]:
    def find() -> tuple[Task, Artifact]:
        task = gateway.find_task(caller, task_id)
        try:
            return task, task.artifact_info(name)
        except UsageError:
            raise not_found(f"no file {name!r} in this task", f"GET /v1/tasks/{task_id}/files lists them") from None

    return await gateway.calls.files.run(find)


async def _pieces(gateway: Gateway, task: Task, name: str, start: int, length: int) -> AsyncIterator[bytes]:
    """Yield the bytes of a part. Raise Problem in its middle if the store fails: the connection then ends.

    Downloads take turns: one piece each, and owners of downloads do, too.
    """
    place, end = start, start + length
    while place < end:
        async with gateway.pieces.hold():  # a full line would end a download that is under way
            piece = await gateway.calls.files.run(task.artifact_bytes, name, place, min(PIECE_BYTES, end - place))
        if not piece:
            raise not_found(f"file {name!r} has ended early")
        yield piece
        place += len(piece)


def _upload_target(gateway: Gateway, caller: Principal, task_id: str) -> tuple[str, bool]:
    """Return the whole id of a task, and True if it does not exist yet.

    The agents of a task that exists find its new files: that is a control.
    """
    whole_id = caller.task_id(task_id)
    stored = gateway.orchestrator.stored_summary(whole_id)
    if stored is not None and caller.teams is not None and stored.team not in caller.teams:
        raise caller.unknown_task(task_id)
    if stored is not None:
        caller.require(Scope.CONTROL)
    return whole_id, stored is None


_RANGE: Final = re.compile(r"bytes= *+([0-9]{0,18}) *+- *+([0-9]{0,18}) *+")


@dataclass(frozen=True)
class ByteRange:
    """Consecutive bytes of a file."""

    start: int
    length: int


def requested_range(header: str | None, if_range: str | None, etag: str, size: int) -> ByteRange | None:
    """Return the range that a request asks for, or None for the whole file. Raise Problem if it has no byte.

    A header with another unit, with several ranges, or with mistakes is ignored, as RFC 9110, section 14, allows. So is
    one whose If-Range does not name the file's tag: the client has a part of another file.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or if_range not in (None, etag) or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, end = max(0, size - int(match[2])), size
    else:
        start, end = int(match[1]), int(match[2]) + 1 if match[2] else size
        if end <= start < size:
            return None
    if start >= min(end, size):
        whole = f"bytes */{size}"
        headers = {"Content-Range": whole}
        raise Problem(416, "range_not_satisfiable", f"the file has no such bytes: {whole}", headers=headers)
    return ByteRange(start, min(end, size) - start)


def file_etag(file: Artifact) -> str:
    """Return the entity tag of a file. Files never change: another content has another name."""
    return f'"{file.sha256 or f"{file.name}-{file.size}"}"'


def safe_type(mime_type: str) -> str:
    """Return the type if no browser runs its content, else that of plain bytes. Texts are UTF-8."""
    kind = mime_type.partition(";")[0].strip().lower()
    if kind not in SAFE_TYPES and _MEDIA.fullmatch(kind) is None:
        return _UNKNOWN_TYPE
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def file_headers(file: Artifact) -> dict[str, str]:
    """Return the headers of a response with the file, or a part of it. The name needs no quoting, by its alphabet."""
    return {
        "Content-Type": safe_type(file.mime_type),
        "Content-Disposition": f'attachment; filename="{file.name}"',
        "ETag": file_etag(file),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Accept-Ranges": "bytes",
        **PRIVATE,
    }
