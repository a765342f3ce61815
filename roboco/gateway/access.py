"""access: the caller of a request, found before the first byte of its body is read.

    request ─► AccessMiddleware ─► route
                 │                  ├── reads the body ─► caller? no: the body is empty, whatever the client sends
                 └── Access ◄───────┴── dependency `Caller` ─► caller? no: Problem, in the form of the route's protocol

A client without a key can so not fill the memory of the process with bodies. A caller sends MAX_BODY bytes at most,
also without a Content-Length, and MAX_VALUES values of JSON, which are counted as the body arrives. Uploads of files
are streamed, and their routes have a limit of their own.

    piece of a long response ─► RECHECK_SECONDS since the last check? ─► check in the background ─► key ended
                                                                          next piece ◄── Problem ◄──┘
A response that lasts, such as a stream, ends so when its key or token does. A store that does not answer ends nothing.
"""

import asyncio
import re
import time
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import Depends, HTTPException, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roboco.domain.access_key import Scope as KeyScope
from roboco.errors import RobocoError
from roboco.gateway.bodies.json_values import JsonValues
from roboco.gateway.calls import OWNER, RECEIVED
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.problems import response_at
from roboco.gateway.origin import HEALTH_PATHS, SAFE_METHODS, check_host, check_origin, path_of
from roboco.gateway.principal import ACCESS, Principal
from roboco.gateway.problem import Problem

PUBLIC_PATHS: Final = frozenset({"/v1/sign-in"})
"""Paths whose requests have their key in the body."""
MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of a request's body, except for uploads of files."""
MAX_VALUES: Final = 50_000
"""Values of a request's body: the members of all its objects and arrays. Each delays other streams a little."""
MAX_PUBLIC_BODY: Final = 4096
"""Bytes of a body without a caller."""
RECHECK_SECONDS: Final = 10.0
"""Seconds between two checks of the caller of a response that lasts."""
_UPLOADS: Final = re.compile(r"/v1/tasks/[^/]+/files(/.*)?")
_STOPS: Final = re.compile(
    r"/(v1|ai/[^/]+|agui/[^/]+/threads)/.+/stop|/a2a/[^/]+/tasks/[^/]+:cancel|/openai/v1/responses/[^/]+/cancel"
)
_EMPTY_BODY: Final[Message] = {"type": "http.request", "body": b"", "more_body": False}


class Access:
    """The caller of one request, found once."""

    def __init__(self, gateway: Gateway, scope: Scope) -> None:
        self._gateway = gateway
        self._scope = scope
        self._found: Principal | Problem | RobocoError | None = None
        self._max_body = self._body_limit()
        self._received = 0
        self._values = JsonValues()
        self._checked_at = time.monotonic()
        self._recheck: asyncio.Task[None] | None = None
        self._ended: Problem | None = None
        self.headers: dict[str, str] = {}
        """Headers of the response: the rest of the caller's requests."""

    @property
    def principal(self) -> Principal | None:
        """The caller, or None if it is not known yet, or not allowed."""
        return self._found if isinstance(self._found, Principal) else None

    async def caller(self) -> Principal:
        """Return the caller, and count its request. Raise the same Problem each time if it is not allowed."""
        if self._found is None:
            try:
                self._found = await self._admitted()
            except (Problem, RobocoError) as error:
                self._found = error
        if isinstance(self._found, Principal):
            return self._found
        raise self._found

    async def may_read_body(self) -> bool:
        """Return True if the body may be read: the caller is known, or the path is public."""
        if path_of(self._scope) in PUBLIC_PATHS:
            return announced_bytes(self._scope) <= MAX_PUBLIC_BODY
        try:
            await self.caller()
        except (Problem, RobocoError):
            return False
        return True

    def check_piece(self, piece: bytes) -> None:
        """Raise HTTPException 413 if the body is too long with its next piece, or has too many values.

        FastAPI lets this exception of a body pass, and answers 400 for any other.
        """
        self._received += len(piece)
        RECEIVED.set(self._received)
        if self._max_body is None:
            return
        if self._received > self._max_body:
            raise HTTPException(413, f"the body is longer than {self._max_body} bytes")
        self._values.add(piece)
        if not self._values.is_utf8:
            raise HTTPException(400, "the body has a zero byte: send JSON in UTF-8")
        if self._values.count > MAX_VALUES:
            raise HTTPException(413, f"the body has more than {MAX_VALUES} values in its objects and arrays")

    async def charge(self) -> None:
        """Count the bytes that the request did not announce."""
        unannounced = self._received - announced_bytes(self._scope)
        if self.principal is not None and unannounced > 0:
            with suppress(Problem, RobocoError):  # the response has been sent
                await self._gateway.limits.charge(self.principal, unannounced)

    def check_again(self) -> None:
        """Raise the Problem of a caller whose key has ended, once: the response may say so. Else begin a check if due.

        Call it before each piece of a response. It does not wait, so that a slow store delays no piece.
        """
        if self._ended is not None:
            ended, self._ended = self._ended, None
            raise ended
        now = time.monotonic()
        if self.principal is not None and now >= self._checked_at + RECHECK_SECONDS:
            self._checked_at = now
            self._recheck = asyncio.create_task(self._check_caller())

    async def check_now(self) -> None:
        """Raise the Problem of a caller whose key has ended, if it was not checked for a while."""
        is_key = self.principal is not None and self.principal.by.startswith("key:")  # a token may just expire
        if is_key and time.monotonic() >= self._checked_at + RECHECK_SECONDS:
            await self._check_caller()
            if self._ended is not None:
                raise self._ended

    async def _check_caller(self) -> None:
        try:
            await self._gateway.authenticator.principal(self._scope)
        except Problem as problem:
            if problem.status in (401, 403):
                self._ended = problem
        except RobocoError:
            return  # the store does not answer: the next check repeats it

    async def _admitted(self) -> Principal:
        caller = await self._gateway.authenticator.principal(self._scope)
        OWNER.set(caller.owner)
        size = announced_bytes(self._scope)
        if self._max_body is not None and size > self._max_body:
            raise Problem(413, "too_large", f"the body has {size} bytes; at most {self._max_body} are allowed")
        self.headers = await self._gateway.limits.admit(caller, size, self._is_essential(caller))
        return caller

    def _is_essential(self, caller: Principal) -> bool:
        """Return True if the request reads, stops a task, or is an operator's, as erasures are."""
        stops = _STOPS.fullmatch(path_of(self._scope)) is not None
        return self._scope["method"] in SAFE_METHODS or stops or KeyScope.OPERATE in caller.scopes

    def _body_limit(self) -> int | None:
        path = path_of(self._scope)
        if path in PUBLIC_PATHS:
            return MAX_PUBLIC_BODY
        return None if _UPLOADS.fullmatch(path) else MAX_BODY


class AccessMiddleware:
    """Gives each request its Access, the body only to requests that are allowed, and its headers to the response.

    It refuses requests under a foreign name, and without authentication those of foreign pages. Requests with a cookie
    are checked where the cookie is.
    """

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._hosts = frozenset(name.lower() for name in gateway.settings.allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_origin(scope)
        except Problem as problem:
            await response_at(path_of(scope), problem)(scope, receive, send)
            return
        await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = Access(self._gateway, scope)
        scope[ACCESS] = access
        began, refused = False, False

        async def receive_if_allowed() -> Message:
            nonlocal began, refused
            if not began and not refused and not await access.may_read_body():
                refused = True
                return _EMPTY_BODY
            message = await receive()
            if message["type"] == "http.request":
                began = True
                access.check_piece(message.get("body", b""))
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _complete_headers(scope, MutableHeaders(scope=message), access.headers)
            elif message["type"] == "http.response.body" and message.get("more_body"):
                access.check_again()
            await send(message)

        owner = OWNER.set("")  # each request begins without one, also if a server serves several in one task
        try:
            await self._app(scope, receive_if_allowed, send_with_headers)
        finally:
            await access.charge()
            OWNER.reset(owner)

    def _check_origin(self, scope: Scope) -> None:
        """Check a request. The health of the process has no secrets, and probes name it by any address."""
        if path_of(scope) in HEALTH_PATHS:
            return
        local_only = not self._gateway.settings.authentication
        check_host(scope, self._hosts, local_only)
        if local_only:
            check_origin(scope, self._gateway.settings.cors_origins)


def _complete_headers(scope: Scope, headers: MutableHeaders, own: dict[str, str]) -> None:
    """Add these headers, and the place at which the application is mounted to the address of something new."""
    headers.update(own)
    address, root = headers.get("location", ""), scope.get("root_path", "")
    if root and address.startswith("/"):
        headers["location"] = root + address


def announced_bytes(scope: Scope) -> int:
    """Return the Content-Length of a request, or 0 if it has none. The server has checked its form."""
    found = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(found) if found.isdigit() and len(found) < 20 else 0


async def authenticate(request: Request) -> Principal:
    """Return the caller of the request. Raise Problem `unauthorized` if it has no valid key or token."""
    access: Any = request.scope[ACCESS]
    caller: Principal = await access.caller()
    return caller


Caller = Annotated[Principal, Depends(authenticate)]
