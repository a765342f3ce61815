"""McpConnection: the requests to one MCP server, for all threads of a process.

    request ─► session open? ─no─► transport, handshake ─► request ─► result
                                        ▲                     └─ refused, and certainly not run (once)
                                        └───── a new session ─┘

Only `McpServers` imports this module, when a server is first used: the `mcp` package takes 0.7 s and 30 MB.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import wait
from functools import partial
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from roboco.model.loop_thread import LoopThread
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.http import Exchange
from roboco.tools.mcp.result import MAX_ERROR_CHARS, error_of
from roboco.tools.mcp.session import McpSession, is_connection_lost, json_text
from roboco.tools.mcp.tokens import TokenAccess, token_auth
from roboco.tools.mcp.transport import McpTransport

IDEMPOTENCY_KEY_FIELD = "roboco/idempotency-key"
"""The field of a call's `_meta` with its idempotency key."""
_POLL_INTERVAL = 0.05
"""Seconds between checks for a cancellation of a wait."""
_THREAD_SLACK = 0.5
"""Seconds by which a thread waits longer than the loop, so that the loop can end late requests itself."""
_SESSION = re.compile(r"(?i)session|initiali[sz]")
_REFUSALS = (types.INVALID_REQUEST, types.INVALID_PARAMS)
"""Codes with which a server refuses a request that it cannot read, or that it does not expect."""
T = TypeVar("T")


class McpConnection:
    """The way to one server, for all threads of a process. It has at most one session, which ends when it is unused."""

    def __init__(
        self, server: McpServer, loop: LoopThread, idle_timeout: float, confinement: Confinement, access: TokenAccess
    ) -> None:
        self._server = server
        self._loop = loop
        self._idle_timeout = idle_timeout
        self._confinement = confinement
        self._auth = partial(token_auth, server, access)
        self._get_credential = access[3]
        self._session: McpSession | None = None

    def list_page(self, cursor: str | None, until: float) -> tuple[list[Any], str | None]:
        """Return a page of the server's list of tools, as it sends them, and the cursor of the next page, or None.

        Raise UsageError if there is none at `until` (of `time.monotonic`).
        """
        coroutine = self._list_page(cursor, until)
        return self._wait(coroutine, until + _THREAD_SLACK, lambda: False, "did not list its tools")

    def call(self, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> dict[str, Any]:
        """Return the tool's result as the server sends it. Raise UsageError for any failure."""
        until = time.monotonic() + 2 * self._server.connect_timeout + self._server.longest_call + _THREAD_SLACK
        return self._wait(self._call(name, args, key), until, cancelled, f"did not complete the call of {name!r}")

    def close(self) -> None:
        """Start to end the session; `wait_closed` waits for the end."""
        if self._session is not None:
            self._loop.submit(self._session.end())

    def wait_closed(self, until: float) -> None:
        """Return when the session has ended, or at `until` (of `time.monotonic`)."""
        if self._session is not None:
            self._session.running.ended.wait(max(0.0, until - time.monotonic()))

    @property
    def is_idle(self) -> bool:
        """Return True if there is no session."""
        return self._session is None or self._session.running.ended.is_set()

    def masker(self) -> Callable[[str], str]:
        """Return the function that masks the secrets of the session in a text."""
        return str if self._session is None else self._session.transport.masker()

    def _wait(self, coroutine: Coroutine[Any, Any, T], until: float, cancelled: Callable[[], bool], did: str) -> T:
        """Return the result of the coroutine, which runs on the loop. Cancel it if its result is not needed."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop.loop())
        try:
            while not future.done():
                if (left := until - time.monotonic()) <= 0:
                    raise UsageError(f"MCP server {self._server.location!r} {did}: it did not answer in time")
                if cancelled():
                    raise UsageError("the call was cancelled")
                wait([future], min(left, _POLL_INTERVAL))
            return future.result()
        finally:
            future.cancel()

    async def _list_page(self, cursor: str | None, until: float) -> tuple[list[Any], str | None]:
        async def send(client: ClientSession, found: Exchange) -> None:
            with anyio.fail_after(max(0.0, until - time.monotonic())):
                await client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

        found = (await self._exchange(send, "did not list its tools", repeatable=True)).result
        listed, following = found.get("tools", found.get("content")), found.get("nextCursor")
        page = listed if isinstance(listed, list) else [] if listed is None else [listed]
        return page, None if following is None else str(following)

    async def _call(self, name: str, args: dict[str, Any], key: str) -> dict[str, Any]:
        params = types.CallToolRequestParams(name=name, arguments=args, _meta={IDEMPOTENCY_KEY_FIELD: key})

        async def send(client: ClientSession, found: Exchange) -> None:
            started = anyio.current_time()

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                found.began = True
                later = anyio.current_time() + self._server.timeout
                scope.deadline = min(later, started + self._server.longest_call)

            with anyio.CancelScope(deadline=started + self._server.timeout) as scope:
                # `call_tool` sends more requests after it, and fails if they fail
                request = types.CallToolRequest(params=params)
                await client.send_request(request, types.CallToolResult, progress_callback=on_progress)
            if scope.cancelled_caught:
                passed = f"{anyio.current_time() - started:.0f} s, with reports of progress"
                raise TimeoutError(f" ({passed})" if found.began else f" ({self._server.timeout:g} s)")

        found = await self._exchange(send, f"did not complete the call of {name!r}")
        raw = found.result
        if raw.get("resultType") == "input_required":
            requests = raw.get("inputRequests")
            found.questions += [*requests.values()] if isinstance(requests, dict) else []
            asked = _asked(found) or "the server needs more input"
            raise UsageError(
                self.masker()(f"tool {name!r} of MCP server {self._server.location!r} did not run: {asked}")
            )
        if raw.get("isError"):
            raise UsageError(self.masker()(f"{error_of(raw)}{_before(found)}"))
        if asked := _asked(found):
            content = raw.get("content") or []
            raw["content"] = [*(content if isinstance(content, list) else [content]), f"({asked})"]
        return raw

    async def _exchange(
        self, send: Callable[[ClientSession, Exchange], Awaitable[None]], did: str, repeatable: bool = False
    ) -> Exchange:
        """Send a request, and return what came back. Raise UsageError if it fails.

        If the server has forgotten the session, or has certainly not run the request, it is sent once more, in a new
        session. A request that is `repeatable` is sent again after any refusal.
        """
        repeated = False
        while True:
            known = self._session
            session, found = await self._open_session(), Exchange()
            may_repeat = session is known and not repeated  # one that was opened for this request is not forgotten
            try:
                await session.request(send, found)
                return found
            except (MCPError, ValidationError, RuntimeError, TimeoutError) as error:
                may_repeat = may_repeat and isinstance(error, MCPError) and not found.began
                if not may_repeat or not (repeatable or await _has_not_run(session, error, found)):
                    raise await self._failure(session, did, error, found) from None
            repeated = True
            await session.end()

    async def _open_session(self) -> McpSession:
        """Return the session, opened if there is none. Raise UsageError if that is not possible."""
        if self._session is None or self._session.ended.is_set():
            transport = McpTransport(self._server, self._confinement, self._auth(), self._get_credential)
            self._session = McpSession(self._server, transport, self._loop, self._idle_timeout)
        session = self._session
        await session.opened.wait()
        if session.error is not None:
            raise UsageError(str(session.error))
        return session

    async def _failure(self, session: McpSession, did: str, error: Exception, found: Exchange) -> UsageError:
        """Return the error of a request that failed."""
        unknown = "; whether it had an effect is not known" if "call" in did and not found.refused else ""
        if isinstance(error, TimeoutError):
            self._loop.submit(session.check())
        reason = await session.failure(error, found)
        refused = isinstance(error, MCPError) and not is_connection_lost(error, found)
        text = f"refused: {reason}{_before(found)}" if refused else f"{did}: {reason}{unknown}"
        return UsageError(session.transport.mask(f"MCP server {self._server.location!r} {text}")[:MAX_ERROR_CHARS])


async def _has_not_run(session: McpSession, error: Exception, found: Exchange) -> bool:
    """Return True if the server has certainly not run the request, and a new session may help."""
    assert isinstance(error, MCPError)
    if found.refused:
        return _names_session(error) or error.code not in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND)
    if not _names_session(error) and error.code not in _REFUSALS:
        return False
    # a tool may name a session too: a server that has forgotten this one refuses every request in that way
    of_ping = await session.ping_error()
    if not isinstance(of_ping, MCPError):
        return False
    return _names_session(of_ping) or (of_ping.code, of_ping.message) == (error.code, error.message)


def _names_session(error: MCPError) -> bool:
    return _SESSION.search(f"{error.message} {error.data}") is not None


def _before(found: Exchange) -> str:
    asked = _asked(found)
    return f"; before that, {asked}" if asked else ""


def _asked(found: Exchange) -> str:
    """Return the server's requests for input that Roboco has refused, for the agent, or ""."""
    asked = [text for one in found.questions if (text := _question(one))]
    return f"the server {'; it '.join(dict.fromkeys(asked))}" if asked else ""


def _question(request: Any) -> str:
    match request:
        case {"method": "elicitation/create", "params": dict() as params}:
            shown = json_text(params.get("requestedSchema") or params.get("url") or "")
            return (
                f"asked the user: {str(params.get('message'))!r} ({shown}), which a call cannot do: "
                "ask the user, and put the answer into the arguments if the tool has one for it"
            )
        case {"method": "sampling/createMessage"}:
            return "asked for an answer of a model (sampling), which Roboco refuses"
        case _:
            return ""
