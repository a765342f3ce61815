"""A scripted model server: chat completions over real HTTP, with real streaming and real faults.

    with ModelServer() as server:
        server.script(lambda request: ChatReply(text=f"you said {request.last_user}"))
        client = OpenAI(base_url=server.base_url, api_key="any")

The answer depends on the request alone, never on the order of calls, since turns are repeated after crashes.
`fail_next` is the exception. One asyncio thread serves all streams.
"""

import asyncio
import contextlib
import json
import math
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from roboco.lab.servers.chat_protocol import ChatRefusal, ChatReply, ChatRequest, encoded
from roboco.lab.servers.dialect import MODEL_LIST, Dialect

BACKLOG = 1024
_PASSED_HEADERS: Final = ("authorization", "accept", "openai-organization", "openai-project")
"""The headers of a request that another server receives."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ACCEPT_TURNS: Final = 5
"""Turns of the event loop in which asyncio has taken a connection that it had accepted. None of them waits."""

Responder = Callable[[ChatRequest], ChatReply]


class _BreakOff(Exception):
    """The reply closes the connection at this point."""


@dataclass
class RequestRecord:
    """A request and the state of its answer. Times are of `time.monotonic`.

    `completed`: the server has sent the complete answer, or an error. It is set before the client can read the end.
    """

    time: float
    request: ChatRequest
    status: int | None = None
    chunks_sent: int = 0
    completed: bool = False
    client_disconnected_at: float | None = None


class ModelServer:
    """A server in a daemon thread between `start` and `stop`, or within a `with` block.

    keep: the number of newest records to hold; None holds all.
    dialect: the provider whose refusals and answers are imitated.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        keep: int | None = None,
        host: str = "127.0.0.1",
        dialect: Dialect | None = None,
    ) -> None:
        self.base_url = ""
        self._host = host
        self._dialect = dialect or Dialect()
        self.slow = 1.0
        """The factor of the interval between two chunks of replies that begin from now on."""
        self._port = port
        self._changed = threading.Condition()
        self._records: deque[RequestRecord] = deque(maxlen=keep)
        self._count = 0
        self._violations: list[str] = []
        self._failures: deque[ChatReply] = deque()
        self._responder: Responder = echo
        self._address: Callable[[ChatRequest], str] | None = None

    def start(self) -> Self:
        """Listen, and set `base_url`, which stays the same after a stop and another start.

        Raise OSError if the port is taken.
        """
        listener = socket.create_server((self._host, self._port), backlog=BACKLOG)
        self._port = listener.getsockname()[1]
        self.base_url = f"http://{self._host}:{self._port}/v1"
        self._loop = asyncio.new_event_loop()
        self._stopped = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, args=(listener,), daemon=True, name="model-server")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close all connections, also during a stream, and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set_result, None)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def script(self, responder: Responder) -> None:
        """Answer with this function from now on. It runs in the server's thread and must not block.

        If it raises, the server answers 500, and adds the error to `violations`.
        """
        self._responder = responder

    def pass_on(self, address: Callable[[ChatRequest], str]) -> None:
        """Pass valid chat requests on to other servers from now on; `address` returns the URL for a request."""
        self._address = address

    def fail_next(self, n: int, reply: ChatReply) -> None:
        """Answer the next n requests with this reply instead of the responder's. Further calls queue up."""
        with self._changed:
            self._failures.extend([reply] * n)

    @property
    def has_failures(self) -> bool:
        """True if replies of `fail_next` are left."""
        with self._changed:
            return bool(self._failures)

    def clear_failures(self) -> None:
        """Forget the replies of `fail_next` that are left."""
        with self._changed:
            self._failures.clear()

    @property
    def requests(self) -> list[RequestRecord]:
        """All requests so far, in order of arrival. The server keeps updating the records."""
        with self._changed:
            return list(self._records)

    @property
    def count(self) -> int:
        """The number of requests so far."""
        with self._changed:
            return self._count

    def since(self, count: int) -> list[RequestRecord]:
        """Return the requests after the first `count` ones, as far as they are held."""
        with self._changed:
            return list(self._records)[max(0, count - self._count + len(self._records)) :]

    @property
    def violations(self) -> list[str]:
        """The errors of all requests so far."""
        with self._changed:
            return list(self._violations)

    def _run(self, listener: socket.socket) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        accepted = web.Server(self._respond, handler_cancellation=True, access_log=None)
        server = await self._loop.create_server(accepted, sock=listener, backlog=BACKLOG)
        await self._stopped
        self._loop.remove_reader(listener)  # no more clients: asyncio would leak the socket of a half accepted one
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        server.close()
        while accepted.connections:
            for connection in accepted.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)  # the handlers end, and the transports close their sockets
        await asyncio.sleep(0)

    async def _respond(self, http: web.BaseRequest) -> web.StreamResponse:
        path, _, query = http.raw_path.partition("?")
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = ChatRequest(http.method, path, headers, _object(await http.content.read()), query)
        record = RequestRecord(time.monotonic(), request)
        with self._changed:
            self._records.append(record)
            self._count += 1
            self._changed.notify_all()
        try:
            return await self._answer(http, record)
        except (_BreakOff, asyncio.CancelledError, ConnectionResetError) as error:
            if not (isinstance(error, _BreakOff) or record.completed or self._stopped.done()):
                self._note(record, client_disconnected_at=time.monotonic())
            if isinstance(error, asyncio.CancelledError):
                raise
            if http.transport is not None:
                http.transport.close()
            return web.Response()  # which the closed connection drops

    def _note(self, record: RequestRecord, **facts: object) -> None:
        with self._changed:
            for name, value in facts.items():
                setattr(record, name, value)
            self._changed.notify_all()

    async def _answer(self, http: web.BaseRequest, record: RequestRecord) -> web.StreamResponse:
        if self._address is not None and record.request.method == "POST" and not self.has_failures:
            return await self._pass_on(http, record, self._address(record.request))
        reply = self._reply(record.request)
        self._note(record, status=reply.status)
        if record.request.stream and reply.status < 400:
            return await self._send_stream(http, record, reply)
        return await self._body_response(record, reply)

    def _reply(self, request: ChatRequest) -> ChatReply:
        match request.method, request.path:
            case "POST", path if path.endswith(self._dialect.chat_path):
                return self._chat_reply(request)
            case "GET", "/v1/models":
                return self._next_failure() or ChatReply()
            case method, path:
                return self._next_failure() or ChatReply(status=404, text=f"there is no {method} {path}")

    def _chat_reply(self, request: ChatRequest) -> ChatReply:
        """Return a queued failure, else the refusal of an invalid request, else the responder's reply."""
        refusal, failure = self._refusal(request), self._next_failure()
        if failure is not None:
            return failure
        if refusal is not None:
            return self._refuse(refusal)
        try:
            return self._dialect.reply(request, self._responder(request))
        except ChatRefusal as refused:
            return self._refuse(refused)
        except Exception as error:
            failed = f"the responder raised {error!r}"
            with self._changed:
                self._violations.append(failed)
            return ChatReply(status=500, text=failed)

    def _refusal(self, request: ChatRequest) -> ChatRefusal | None:
        """Return the refusal of an invalid request, and note the violation."""
        try:
            self._dialect.check(request)
        except ChatRefusal as refused:
            with self._changed:
                self._violations.append(refused.message)
            return refused
        return None

    def _refuse(self, refused: ChatRefusal) -> ChatReply:
        return ChatReply(
            status=refused.status, text=refused.message, garbage=encoded(self._dialect.error_body(refused))
        )

    def _next_failure(self) -> ChatReply | None:
        with self._changed:
            return self._failures.popleft() if self._failures else None

    async def _send_stream(self, http: web.BaseRequest, record: RequestRecord, reply: ChatReply) -> web.StreamResponse:
        stream, slow = self._dialect.stream(record.request, reply), self.slow
        await _fault(reply, sent=0)
        response = await begin_stream(http, reply)
        await asyncio.sleep(reply.delay)
        while reply.held_until is not None and not reply.held_until.is_set():
            await asyncio.sleep(0.01)
        await response.write(stream.opening)
        for sent, chunk in enumerate(stream.chunks, start=1):
            await asyncio.sleep(reply.interval * slow if sent > 1 else 0)
            self._note(record, chunks_sent=sent)
            await response.write(chunk)
            await _fault(reply, sent)
        await _fault(reply, math.inf)
        await asyncio.sleep(0)
        self._note(record, completed=True)
        await response.write_eof(stream.ending)
        return response

    async def _pass_on(self, http: web.BaseRequest, record: RequestRecord, url: str) -> web.StreamResponse:
        """Send the request to another server, and its answer to the client, as it arrives. 502 if there is none."""
        self._refusal(record.request)
        headers = {name: value for name, value in record.request.headers.items() if name in _PASSED_HEADERS}
        try:
            async with (
                aiohttp.ClientSession(trust_env=True, timeout=aiohttp.ClientTimeout(total=None)) as session,
                session.post(url, json=record.request.body, headers=headers) as answer,
            ):
                self._note(record, status=answer.status)
                passed = {name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers}
                kind = {"Content-Type": answer.content_type}
                response = await begin_stream(http, ChatReply(status=answer.status, headers=kind | passed))
                async for data in answer.content.iter_any():
                    self._note(record, chunks_sent=record.chunks_sent + 1)
                    await response.write(data)
                    await asyncio.sleep(0)
                self._note(record, completed=True)
                await response.write_eof()
                return response
        except aiohttp.ClientError as error:
            if http.transport is None or http.transport.is_closing():
                raise ConnectionResetError from error
            if record.status is not None:
                raise _BreakOff from error
            return await self._body_response(record, ChatReply(status=502, text=f"{url}: {error!r}"))

    async def _body_response(self, record: RequestRecord, reply: ChatReply) -> web.Response:
        body = self._body(record.request, reply)
        await _fault(reply, math.inf)
        await asyncio.sleep(reply.delay)
        self._note(record, completed=True)
        return web.Response(
            body=body, status=reply.status, headers={"Content-Type": "application/json", **reply.headers}
        )

    def _body(self, request: ChatRequest, reply: ChatReply) -> bytes:
        if reply.garbage is not None:
            return reply.garbage
        if reply.status >= 400:
            return encoded(self._dialect.error_body(ChatRefusal(reply.text, status=reply.status, code=reply.code)))
        if request.method == "GET":
            return encoded(MODEL_LIST)
        return encoded(self._dialect.completion(request, reply))


def echo(request: ChatRequest) -> ChatReply:
    """Return the default reply, the last user message."""
    return ChatReply(text=f"echo: {request.last_user}")


async def begin_stream(http: web.BaseRequest, reply: ChatReply) -> web.StreamResponse:
    """Send the head of a stream, and return the response whose chunks follow."""
    response = web.StreamResponse(status=reply.status, headers={"Content-Type": "text/event-stream", **reply.headers})
    response.enable_chunked_encoding()
    await response.prepare(http)
    return response


async def _fault(reply: ChatReply, sent: float) -> None:
    """Raise _BreakOff or hang, if the reply demands it after this number of chunks."""
    if reply.break_after is not None and sent >= reply.break_after:
        raise _BreakOff
    if reply.hang_after is not None and sent >= reply.hang_after:
        await asyncio.Event().wait()


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body, parse_constant=_refuse_constant)
        if _SURROGATE.search(body):
            json.dumps(parsed, ensure_ascii=False).encode()  # raises if one has no partner
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
