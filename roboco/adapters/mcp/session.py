"""Session: a persistent session with one MCP server, for all threads of a process."""

import contextvars
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import TypeAdapter

from roboco.adapters.mcp.client_session import SessionExpired
from roboco.adapters.mcp.confinement import Confinement
from roboco.adapters.mcp.errors import failure_reason, is_connection_lost, mask_secrets, means_unknown_tool
from roboco.adapters.mcp.http import HttpState, http_state
from roboco.adapters.mcp.loop_call import LoopCall, never_cancelled, wait_result
from roboco.adapters.mcp.result import MAX_ERROR_CHARS, result_json, text_content
from roboco.adapters.mcp.server_exit import ServerExit
from roboco.adapters.mcp.tool import EffectHints, ListedTools, McpTool, describe_tool
from roboco.adapters.mcp.tool_pages import ToolPages
from roboco.adapters.mcp.transport import McpTransport
from roboco.adapters.model.loop_thread import LoopThread
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

IDEMPOTENCY_KEY_FIELD = "roboco/idempotency-key"
"""The field of a call's `_meta` with its idempotency key."""
_THREAD_SLACK = 0.5
"""Seconds by which a thread waits longer than the loop, so that the loop can end late requests itself."""
PING_TIMEOUT = 5.0
"""Seconds in which a server must answer a ping after a request that it did not answer."""
_UNKNOWN_TOOL_PATTERN = re.compile(r"(?i)\b(unknown tool|tool\b.{0,80}\bnot found)")
_EXIT_STATUS_TIMEOUT = 4.0
"""Seconds for which a request that lost its server's process waits for the exit status."""
_log = logging.getLogger(__name__)
_RESULT_ADAPTER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

# The package logs messages that it cannot parse, in full length. They may contain secrets that servers repeat.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").addFilter(lambda record: f"{os.sep}mcp{os.sep}" not in record.pathname)


class _ConnectionLost(Exception):
    """The connection was lost during a request: `error` of the package, and the HTTP status as a text."""

    def __init__(self, error: MCPError, http_message: str) -> None:
        super().__init__(error, http_message)
        self.error = error
        self.http_message = http_message


class McpSession:
    """A session that one task on the loop opens, holds and closes. It ends when unused for `idle_timeout` seconds.

    The loop calls `on_change` when the server's tools are no longer those that it listed.
    """

    def __init__(
        self,
        server: McpServer,
        loop: LoopThread,
        idle_timeout: float,
        on_change: Callable[[], None],
        confinement: Confinement,
    ) -> None:
        self.ended = False
        self._server = server
        self._confinement = confinement
        self._loop = loop
        self._idle_timeout = idle_timeout
        self._on_change = on_change
        self._active_requests = 0
        self._last_used = time.monotonic()
        self._opened: Future[ClientSession] = Future()
        self._secrets: tuple[str, ...] = ()
        self._exit = ServerExit()
        self._scope: anyio.CancelScope | None = None
        # not in the context of the call that happens to be first: many calls share the session
        self._running = contextvars.Context().run(loop.submit, self._run())

    def tools(self, until: float) -> ListedTools:
        """Return the tools that the server lists, by its own names. Raise UsageError or SessionExpired."""
        session = self._open(until, never_cancelled)
        try:
            listed = LoopCall(self._loop, lambda: self._list_tools(session)).result(until, never_cancelled)
        except (SessionExpired, UsageError):
            raise
        except _ConnectionLost as lost:
            raise self._failure("did not list its tools", lost.error, self._loss_reason(lost)) from None
        except Exception as error:
            if isinstance(error, TimeoutError):
                self._loop.submit(self._ping(session))
            raise self._failure("did not list its tools", error) from None
        described = {tool.name: _describe_tool(tool, self._secrets, until) for tool in listed.tools.values()}
        others = tuple(mask_secrets(self._secrets, name) for name in listed.other_names)
        return ListedTools(described, others, listed.unnamed_count)

    def call(self, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> Any:
        """Return the tool's result in JSON. Raise UsageError, or SessionExpired if the server has not seen the call."""
        session = self._open(time.monotonic() + self._server.connect_timeout + _THREAD_SLACK, cancelled)
        until = time.monotonic() + self._server.timeout + _THREAD_SLACK
        try:
            result = LoopCall(self._loop, lambda: self._call(session, name, args, key)).result(until, cancelled)
            return self._parse_result(name, result)
        except (SessionExpired, UsageError):
            raise
        except _ConnectionLost as lost:
            did = f"did not complete the call of {name!r}"
            raise self._failure(did, lost.error, self._loss_reason(lost), effect=True) from None
        except Exception as error:
            late = ""
            if isinstance(error, TimeoutError):
                late = f" ({self._server.timeout:g} s)"
                self._loop.submit(self._ping(session))
            raise self._failure(f"did not complete the call of {name!r}", error, late, effect=True) from None

    def close(self) -> None:
        """Start to end the session; `wait_closed` waits for the end."""
        self._loop.submit(self._close())

    def wait_closed(self, until: float) -> None:
        """Return when the session has ended, or at `until` (of `time.monotonic`)."""
        self._running.ended.wait(max(0.0, until - time.monotonic()))

    def _open(self, until: float, cancelled: Callable[[], bool]) -> ClientSession:
        try:
            return wait_result(self._opened, until, cancelled)
        except TimeoutError as error:
            raise self._failure("could not be reached", error) from None

    def _loss_reason(self, lost: _ConnectionLost) -> str:
        """Return the process's exit status, which is known shortly after its output ends; else the HTTP status."""
        if self._server.command is not None:
            self.wait_closed(time.monotonic() + _EXIT_STATUS_TIMEOUT)
        return self._exit.message or lost.http_message

    def _failure(self, what: str, error: Exception, detail: str = "", effect: bool = False) -> UsageError:
        unknown = "; whether it had an effect is not known" if effect else ""
        text = f"MCP server {self._server.location!r} {what}: {failure_reason(error, self._secrets)}{detail}{unknown}"
        return UsageError(mask_secrets(self._secrets, text))

    def _parse_result(self, name: str, result: CallToolResult | InputRequiredResult) -> Any:
        """Return the result as JSON. Raise UsageError if the server reports an error."""
        if isinstance(result, InputRequiredResult):
            raise UsageError(
                f"tool {name!r} of MCP server {self._server.location!r} asks a user for input, which is not supported"
            )
        if not result.is_error:
            return result_json(result)
        text = (
            mask_secrets(self._secrets, text_content(result))[:MAX_ERROR_CHARS] or "the tool failed and gave no reason"
        )
        if _UNKNOWN_TOOL_PATTERN.search(text):
            self._on_change()
        raise UsageError(text)

    async def _run(self) -> None:
        state = HttpState()
        http_state.set(state)
        try:
            transport = McpTransport(self._server, self._confinement)
            self._secrets = transport.secrets
            try:
                with anyio.CancelScope() as self._scope:
                    await self._serve(transport)
            finally:
                self._log_exit()
        except Exception as error:
            if not self._opened.done():
                self._opened.set_exception(
                    self._failure("could not be reached", error, state.message or self._exit.message)
                )
        finally:
            self.ended = True
            if not self._opened.done():  # closed from outside
                self._opened.set_exception(UsageError(f"MCP server {self._server.location!r} is being closed"))

    def _log_exit(self) -> None:
        """Log why a server that was started could not be reached, or how it ended by itself."""
        lines = self._exit.log_lines(self._secrets)
        if self._exit.status is None and (self._opened.done() or not lines):
            return
        what = self._exit.message.strip(" ()").partition(";")[0] or "it could not be reached"
        last = "".join(f"\n  | {line}" for line in lines)
        text = f"MCP server {self._server.location!r}: {what}; " + (
            "its stderr ends with" if last else "its stderr is empty"
        )
        _log.warning("%s%s", mask_secrets(self._secrets, text), last)

    async def _serve(self, transport: McpTransport) -> None:
        async with (
            transport.streams() as streams,
            ClientSession(streams.read, streams.write, message_handler=self._on_notification) as session,
        ):
            self._exit = streams.exit
            try:
                with anyio.fail_after(self._server.connect_timeout):
                    await _initialize(session)
                self._last_used = time.monotonic()
                self._opened.set_result(session)
                await self._wait_until_unused(streams.gone)
            finally:
                self.ended = True  # no thread starts a request while the rest is closed

    async def _wait_until_unused(self, gone: anyio.Event) -> None:
        """Return when the server is lost, or the session was unused for `idle_timeout` seconds."""
        while not gone.is_set():
            left = (
                self._idle_timeout if self._active_requests else self._last_used + self._idle_timeout - time.monotonic()
            )
            if left <= 0:
                break
            with anyio.move_on_after(left):
                await gone.wait()

    async def _close(self) -> None:
        self._end()

    def _end(self) -> None:
        self.ended = True
        if self._scope is not None:
            self._scope.cancel()

    async def _ping(self, session: ClientSession) -> None:
        """End the session if the server does not answer a ping, after an unanswered request, and no request waits."""
        try:
            with anyio.fail_after(PING_TIMEOUT):
                await session.send_ping()
        except TimeoutError:
            if not self._active_requests:
                self._end()
        except Exception:
            return  # an error response is an answer too; an ended connection is noticed elsewhere

    async def _on_notification(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    async def _list_tools(self, session: ClientSession) -> ToolPages:
        found = ToolPages(self._server)
        with self._active_request():
            await found.read(session)
        return found

    async def _call(
        self, session: ClientSession, name: str, args: dict[str, Any], key: str
    ) -> CallToolResult | InputRequiredResult:
        """Send the request once. The package's own `call_tool` sends more requests after it, and fails if they fail."""
        params = types.CallToolRequestParams(name=name, arguments=args, _meta={IDEMPOTENCY_KEY_FIELD: key})
        with self._active_request(), anyio.fail_after(self._server.timeout):
            return await session.send_request(types.CallToolRequest(params=params), _RESULT_ADAPTER)

    @contextmanager
    def _active_request(self) -> Iterator[None]:
        """Count the request as active, and translate its errors.

        Raise SessionExpired if it cannot have reached the server, _ConnectionLost if the connection broke, and
        UsageError with the server's error otherwise.
        """
        if self.ended:
            raise SessionExpired
        state = HttpState()
        http_state.set(state)
        self._active_requests += 1
        try:
            yield
        except MCPError as error:
            if state.session_unknown:
                self._end()
                raise SessionExpired from None
            if is_connection_lost(error):
                raise _ConnectionLost(error, state.message) from None
            if means_unknown_tool(error):
                self._on_change()
            raise self._failure("refused", error, state.message) from None
        finally:
            self._active_requests -= 1
            self._last_used = time.monotonic()


async def _initialize(session: ClientSession) -> None:
    """Agree on a revision of the protocol.

    The old handshake is tried first: servers that support both accept it, and many old servers end at any other first
    request.
    """
    try:
        await session.initialize()
    except MCPError as error:
        if is_connection_lost(error):
            raise
        await session.discover()
        await session.list_tools()  # calls to these servers repeat parts of their list of tools in headers


def _describe_tool(tool: types.Tool, secrets: tuple[str, ...], until: float) -> McpTool:
    annotations = tool.annotations
    hints = EffectHints(
        annotations is not None and annotations.read_only_hint is True,
        annotations is not None and annotations.idempotent_hint is True,
    )
    text = mask_secrets(secrets, tool.description or tool.title or "")
    return describe_tool(text, tool.input_schema, hints, in_time=time.monotonic() < until)
