"""endpoints: routes whose functions do the work alone, in one thread, and responses with their JSON.

    request ─► Caller ─► scope ─► thread of a line: the caller's task, the function ─► JSON ─► ETag ─► response

A function names what it needs: `task` (the caller's task of the path), `gateway`, `caller`, and parameters of the path,
the query and the body, which FastAPI reads. The line `operations` needs an operator of all tenants, and a problem names
the server that is silent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from inspect import Parameter, Signature, signature
from typing import Any, Final, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from roboco.errors import Overloaded, RetryLater, TransientError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import unavailable
from roboco.gateway.rest.parameters import TaskId
from roboco.gateway.rest.responses import problems, readable

Outcome = TypeVar("Outcome")
Work = TypeVar("Work", bound=Callable[..., object])
LineName = Literal["reads", "histories", "operations"]
"""The calls among which a function waits for a thread."""
Before = Callable[..., Awaitable[None]]
MAX_POLL: Final = 0.5
"""Seconds between two reads of a wait, at most."""
FIRST_POLL: Final = 0.02
"""Seconds between the first two reads of a wait. Each interval is twice the one before."""
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie, X-API-Key"}
"""Headers of what one caller may read: a cache of that caller alone may keep it, and asks again before each use."""
_SHARED: Final = {"request": Request, "gateway": TheGateway, "caller": Caller}


class Endpoints(APIRouter):
    """Routes of one group of operations."""

    def __init__(self, tag: str, statuses: tuple[int, ...] = ()) -> None:
        super().__init__(route_class=StrictJsonRoute, tags=[tag])
        self._statuses = statuses

    def read(
        self,
        path: str,
        model: Any,
        summary: str,
        *scopes: Scope,
        line: LineName = "reads",
        statuses: tuple[int, ...] = (),
        before: Before | None = None,
    ) -> Callable[[Work], Work]:
        """Let a function answer GET, for callers with one of the scopes, by default `read`.

        `before` waits, with the parameters of the request, before the function gets a thread.
        """

        def add(work: Work) -> Work:
            endpoint = _endpoint(work, scopes or (Scope.READ,), line, is_read=True, before=before)
            responses = readable(*self._statuses, *statuses)
            self.add_api_route(path, endpoint, response_model=model, summary=summary, responses=responses)
            return work

        return add

    def operate(self, path: str, model: Any, summary: str, statuses: tuple[int, ...] = ()) -> Callable[[Work], Work]:
        """Let a function answer POST, for operators of all tenants."""

        def add(work: Work) -> Work:
            endpoint = _endpoint(work, (), "operations", is_read=False)
            self.add_api_route(
                path, endpoint, methods=["POST"], response_model=model, summary=summary, responses=problems(*statuses)
            )
            return work

        return add


@dataclass(frozen=True)
class RawJson:
    """A body that is JSON text already, such as stored steps."""

    data: bytes


def as_json(value: object) -> bytes:
    """Return plain data, models, dataclasses, or lists of them, as the JSON that the commands print too."""
    if isinstance(value, RawJson):
        return value.data
    return to_json(value, by_alias=False, inf_nan_mode="null")


def json_response(value: object, status: int = 200, location: str | None = None) -> Response:
    """Return a response with the JSON of a value, and the address of what it has created."""
    headers = None if location is None else {"Location": location}
    return Response(as_json(value), status, headers, "application/json")


async def run_operation(gateway: Gateway, caller: Principal, call: Callable[[], Outcome]) -> Outcome:
    """Return the result of the call for an operator. Raise Problem `unavailable` with the name of a silent server."""
    caller.require_operator()
    try:
        return await gateway.calls.operations.run(call)
    except (Overloaded, RetryLater):
        raise
    except TransientError as error:
        raise unavailable(str(error)) from None


async def wait_until(gateway: Gateway, seconds: float, is_done: Callable[[], Awaitable[bool]]) -> None:
    """Return once it is done, after these seconds, or if the process is about to exit. No thread waits."""
    loop = asyncio.get_running_loop()
    deadline, interval = loop.time() + seconds, FIRST_POLL
    while loop.time() < deadline and not gateway.closing.is_set() and not await is_done():
        await asyncio.sleep(min(interval, max(0.0, deadline - loop.time())))
        interval = min(2 * interval, MAX_POLL)


def _endpoint(
    work: Callable[..., object], scopes: tuple[Scope, ...], line: LineName, is_read: bool, before: Before | None = None
) -> Callable[..., Coroutine[Any, Any, Response]]:
    """Return the function with the signature that FastAPI reads."""
    wanted = signature(work).parameters

    async def endpoint(request: Request, gateway: Gateway, caller: Principal, **given: Any) -> Response:
        if line != "operations":
            caller.require_any(*scopes)
        if before is not None:
            await before(gateway, caller, **given)
        given |= {name: found for name, found in (("gateway", gateway), ("caller", caller)) if name in wanted}

        def run() -> tuple[bytes, str]:
            if "task" in wanted:
                given["task"] = gateway.find_task(caller, given.pop("task_id"))
            data = as_json(work(**given))
            return data, etag_of(data) if is_read else ""

        if line == "operations":
            return _response(request, *await run_operation(gateway, caller, run))
        return _response(request, *await getattr(gateway.calls, line).run(run))

    shared = _SHARED | ({"task_id": TaskId} if "task" in wanted else {})
    own = [one.replace(kind=Parameter.KEYWORD_ONLY) for name, one in wanted.items() if name not in {"task", *shared}]
    first = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in shared.items()]
    endpoint.__signature__ = Signature([*first, *own])  # type: ignore[attr-defined] # functions may have one
    endpoint.__name__, endpoint.__doc__ = work.__name__, work.__doc__
    return endpoint


def etag_of(data: bytes) -> str:
    """Return the entity tag of a body. It is a digest of the bytes, and so the same on every gateway."""
    return f'"{sha256(data).hexdigest()[:32]}"'


def has_match(header: str | None, etag: str) -> bool:
    """Return True if an If-None-Match header names the tag, weakly compared, or any."""
    names = [name.strip().removeprefix("W/") for name in (header or "").split(",")]
    return etag in names or "*" in names


def _response(request: Request, data: bytes, etag: str) -> Response:
    """Return JSON with its entity tag, if it has one, or 304 without a body if the client has it."""
    if not etag:
        return Response(data, media_type="application/json")
    headers = {"ETag": etag, **PRIVATE}
    if has_match(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="application/json")
