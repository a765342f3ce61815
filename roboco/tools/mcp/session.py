"""McpSession: one session with an MCP server, which the `mcp` package holds on the loop thread.

The package checks messages, correlates responses, resumes streams and ends processes. This module opens a session,
ends one that is unused, and keeps what the package would refuse.
"""

import contextvars
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from roboco.model.loop_thread import LoopThread
from roboco.tools.mcp.http import Exchange, exchange
from roboco.tools.mcp.result import MAX_ERROR_CHARS
from roboco.tools.mcp.transport import McpTransport

PING_TIMEOUT = 5.0
"""Seconds in which a server must answer a ping after a request that it did not answer."""
_EXIT_STATUS_TIMEOUT = 5.0
"""Seconds for which a request that lost its server's process waits for the exit status."""
_CLOSED = "Connection closed"
"""The package's message of each request whose streams have ended."""
_ID_BITS = 31
"""Bits of a request's id. It is random: no text that a server repeats on its output can be taken for the response."""
_OLDEST_VERSION = HANDSHAKE_PROTOCOL_VERSIONS[0]
_UNAUTHORIZED = (401, 403)
_SIGN_IN = "correct the token in its `headers`, or its `auth`; for `auth: user` the user must sign in again"
_log = logging.getLogger(__name__)

# The package logs messages that it cannot parse, in full length. They may contain secrets that servers repeat.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").addFilter(lambda record: f"{os.sep}mcp{os.sep}" not in record.pathname)


class McpSession:
    """A session that one task on the loop opens, holds and closes.

    `error` is the reason if it could not be opened. It is `ended` for new requests before its streams are `closed`.
    """

    def __init__(self, server: McpServer, transport: McpTransport, loop: LoopThread, idle_timeout: float) -> None:
        self.opened, self.ended, self.closed = anyio.Event(), anyio.Event(), anyio.Event()
        self.error: UsageError | None = None
        self.transport = transport
        self._server = server
        self._idle_timeout = idle_timeout
        self._active: list[Exchange] = []
        self._last_used = 0.0
        self._client: ClientSession | None = None
        self._scope = anyio.CancelScope()
        # not in the context of the request that happens to be first: many requests share the session
        self.running = contextvars.Context().run(loop.submit, self._run())

    async def request(self, send: Callable[[ClientSession, Exchange], Awaitable[None]], found: Exchange) -> None:
        """Send a request. One that fails is no use of the session."""
        assert self._client is not None
        exchange.set(found)
        self._active.append(found)
        try:
            await send(self._client, found)
            self._last_used = time.monotonic()
        finally:
            self._active.remove(found)

    async def end(self) -> None:
        """Start to end the session."""
        self.ended.set()
        self._scope.cancel()

    async def check(self) -> None:
        """End the session if the server does not answer a ping, after an unanswered request, and no request waits."""
        if await self.ping_error() is not None and not self._active:
            await self.end()

    async def ping_error(self) -> Exception | None:
        """Return why the server answers no ping, or None if it does, although it may not know the method."""
        assert self._client is not None
        exchange.set(Exchange())
        try:
            with anyio.fail_after(PING_TIMEOUT):
                await self._client.send_ping()
        except (TimeoutError, MCPError) as error:
            return None if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND else error
        return None

    async def failure(self, error: Exception, found: Exchange) -> str:
        """Return the cause of a failed request, when the exit status of a lost process is known."""
        if isinstance(error, MCPError) and is_connection_lost(error, found) and self._server.command is not None:
            with anyio.move_on_after(_EXIT_STATUS_TIMEOUT):
                await self.closed.wait()
        return _failure_reason(error, found, self.transport)

    async def _run(self) -> None:
        found = Exchange()
        exchange.set(found)
        reason = ""
        try:
            with self._scope:
                async with self.transport.streams() as (read, write):
                    await self._serve(read, write, found)
        except Exception as error:
            reason = f"could not be reached: {_failure_reason(error, found, self.transport)}"
        finally:
            if self._client is None:
                text = f"MCP server {self._server.location!r} {reason or 'is being closed'}"
                self.error = UsageError(self.transport.mask(text)[:MAX_ERROR_CHARS])
            for event in (self.ended, self.opened, self.closed):
                event.set()
            self._log_exit()

    async def _serve(self, read: Any, write: Any, found: Exchange) -> None:
        dispatcher = _Dispatcher(read, write, self._active)
        async with ClientSession(dispatcher=dispatcher) as client:
            try:
                with anyio.fail_after(self._server.connect_timeout):
                    await _initialize(client, found)
                exchange.set(None)
                self._last_used = time.monotonic()
                self._client = client
                self.opened.set()
                await self._wait_until_unused(dispatcher.ended)
            finally:
                self.ended.set()  # no thread starts a request while the rest is closed

    async def _wait_until_unused(self, lost: anyio.Event) -> None:
        """Return when the server is lost, or the session was unused for `idle_timeout` seconds."""
        while not lost.is_set():
            left = self._idle_timeout if self._active else self._last_used + self._idle_timeout - time.monotonic()
            if left <= 0:
                break
            with anyio.move_on_after(left):
                await lost.wait()

    def _log_exit(self) -> None:
        """Log why a server that was started could not be reached, or how it ended by itself."""
        message, lines = self.transport.exit.message, self.transport.exit.log_lines(self.transport.mask)
        if message or (self._client is None and lines):
            what = message.strip(" ()").partition(";")[0] or "it could not be reached"
            text = f"MCP server {self._server.location!r}: {what}; its stderr {'ends with' if lines else 'is empty'}"
            _log.warning("\n  | ".join([self.transport.mask(text), *lines]))


class _Dispatcher:
    """The package's dispatcher. `exchange` gets each result as the server sent it, and each request of the server.

    The package checks a result strictly, and refuses a whole list of tools for one odd tool. So the session gets the
    parts of a result that it needs itself, and the adapter reads the whole.
    """

    def __init__(self, read: Any, write: Any, active: list[Exchange]) -> None:
        self.ended = anyio.Event()
        self._inner = JSONRPCDispatcher(read, write)
        self._active = active
        self.notify = self._inner.notify

    async def run(self, on_request: Callable[..., Awaitable[Any]], *rest: Any, **options: Any) -> None:
        """Receive messages until the streams end."""

        async def record(context: Any, method: str, params: Any) -> Any:
            own = [found for found in self._active if found is exchange.get()]
            for found in own or self._active[-1:]:  # a process does not say to which request its own belongs
                found.questions.append({"method": method, "params": params})
            return await on_request(context, method, params)

        try:
            await self._inner.run(record, *rest, **options)
        finally:
            self.ended.set()

    async def send_raw_request(self, method: str, params: Any, opts: CallOptions | None = None) -> dict[str, Any]:
        """Send a request under a random id. Return what the session needs of the result."""
        found = exchange.get() or Exchange()
        found.id = secrets.randbits(_ID_BITS)
        try:
            raw = await self._inner.send_raw_request(method, params, {**(opts or {}), "request_id": found.id})
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED and error.message == _CLOSED:
                self.ended.set()  # `run` ends a moment later
            raise
        found.result = raw
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match method:
            case "initialize":
                version = raw.get("protocolVersion")
                known = version if version in HANDSHAKE_PROTOCOL_VERSIONS else _OLDEST_VERSION
                return {"protocolVersion": known, "capabilities": {}, "serverInfo": {"name": "", "version": ""}}
            case "tools/list":
                return complete | {"tools": _tools_with_headers(raw)}
            case "tools/call":
                return {"content": [], "resultType": "complete"}
            case "ping":
                return {}
            case _:
                return complete | raw | {"capabilities": {}}


def _tools_with_headers(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools whose calls repeat arguments in headers, as the session must know."""
    listed = raw.get("tools")
    return [
        {"name": tool["name"], "inputSchema": tool["inputSchema"] | {"type": "object"}}
        for tool in (listed if isinstance(listed, list) else [])
        if isinstance(tool, dict)
        and isinstance(tool.get("name"), str)
        and isinstance(tool.get("inputSchema"), dict)
        and "x-mcp-header" in str(tool["inputSchema"])
    ]


async def _initialize(client: ClientSession, found: Exchange) -> None:
    """Agree on a revision of the protocol.

    The old handshake is tried first: servers that support both accept it, and many old servers end at any other first
    request. Some servers refuse it for a revision that they do not know.
    """
    refusal: MCPError | None = None
    for version in (LATEST_HANDSHAKE_VERSION, _OLDEST_VERSION):
        about = types.Implementation(name="roboco", version="1")
        params = types.InitializeRequestParams(
            protocol_version=version, capabilities=types.ClientCapabilities(), client_info=about
        )
        try:
            client.adopt(await client.send_request(types.InitializeRequest(params=params), types.InitializeResult))
            await client.send_notification(types.InitializedNotification())
            return
        except MCPError as error:
            refusal = refusal or error
            if is_connection_lost(error, found) or found.status in _UNAUTHORIZED:
                raise refusal from None
    try:
        await client.discover()
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await client.list_tools()  # calls to these servers repeat parts of their list of tools in headers
    except (MCPError, ValidationError, RuntimeError):
        raise refusal or RuntimeError from None


def is_connection_lost(error: MCPError, found: Exchange) -> bool:
    """Return True if no response can arrive any more. Servers use the same code for errors of their own."""
    lost = error.message.startswith((_CLOSED, "SSE stream")) or found.fault
    return error.code == types.CONNECTION_CLOSED and bool(lost)


def _failure_reason(error: BaseException, found: Exchange, transport: McpTransport) -> str:
    """Return the cause of a failure with the exit status or HTTP status, and the remedy if it is known."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case UsageError():
            reason = str(error)
        case TimeoutError():
            reason = f"it did not answer in time{error}"
        case MCPError() if is_connection_lost(error, found):
            reason = found.fault or "the connection was lost"
        case MCPError():
            data = "" if error.data in (None, "", {}) else f" ({json_text(error.data)})"
            reason = (error.message or "it gave no reason") + data
        case ValidationError():
            reason = "its answer does not follow the protocol"
        case _:
            reason = f"{type(error).__name__}: {error}"
    remedy = f"; {_SIGN_IN}" if found.status in _UNAUTHORIZED else ""
    status = f" (HTTP status {found.status})" if found.status is not None and found.status >= 300 else ""
    return f"{reason}{transport.exit.message or status}{remedy}"


def json_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
