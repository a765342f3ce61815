"""answers: responses with JSON of the caller's task, each from one thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request, Response
from pydantic_core import to_json

from roboco.client.task import Task
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.rest.caching import PRIVATE, etag_of, has_match

Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class RawJson:
    """A body that is JSON text already, such as stored steps."""

    data: bytes


def as_json(value: object) -> bytes:
    """Return plain data, models, dataclasses, or lists of them, as the JSON that the commands print too."""
    if isinstance(value, RawJson):
        return value.data
    return to_json(value, by_alias=False, inf_nan_mode="null")


def tagged_json(read: Callable[[], object]) -> tuple[bytes, str]:
    """Return what `read` returns as JSON, and its entity tag. Call it in a thread: it may have many megabytes."""
    data = as_json(read())
    return data, etag_of(data)


def tagged_response(request: Request, tagged: tuple[bytes, str]) -> Response:
    """Return JSON with its entity tag, or 304 without a body if the client has it."""
    data, etag = tagged
    headers = {"ETag": etag, **PRIVATE}
    if has_match(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="application/json")


async def read_json(request: Request, gateway: Gateway, read: Callable[[], object]) -> Response:
    """Return what `read` returns, as JSON with its entity tag."""
    return tagged_response(request, await gateway.calls.reads.run(tagged_json, read))


async def read_task(
    request: Request, gateway: Gateway, caller: Principal, task_id: str, read: Callable[[Task], object]
) -> Response:
    """Return what `read` returns of the caller's task, as `read_json` does."""
    return await read_json(request, gateway, lambda: read(gateway.find_task(caller, task_id)))


async def read_whole(
    request: Request, gateway: Gateway, caller: Principal, task_id: str, read: Callable[[Task], object]
) -> Response:
    """Do the same as `read_task` for a read that holds the whole history in memory."""
    found = await gateway.calls.histories.run(tagged_json, lambda: read(gateway.find_task(caller, task_id)))
    return tagged_response(request, found)


async def change_task(gateway: Gateway, caller: Principal, task_id: str, change: Callable[[Task], Outcome]) -> Outcome:
    """Return the result of a control of the caller's task. Slow reads of others do not delay it."""
    return await gateway.calls.controls.run(lambda: change(gateway.find_task(caller, task_id)))
