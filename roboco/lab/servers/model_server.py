"""A scripted model server: chat completions over real HTTP, with real streaming and real faults.

    with ModelServer() as server:
        server.script(lambda request: ChatReply(text=f"you said {request.last_user}"))
        client = OpenAI(base_url=server.base_url, api_key="any")

The answer depends on the request alone, never on the order of calls, since turns are repeated after crashes.
`fail_next` is the exception. One asyncio thread serves all streams.
"""

import asyncio
import contextlib
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import aiohttp

from roboco.lab.servers.chat_protocol import ChatRefusal, ChatReply, ChatRequest, encoded
from roboco.lab.servers.dialect import Dialect, model_list
from roboco.lab.servers.http_connection import BreakOff, ClientGone, Connection, WatchedReader

BACKLOG = 1024
_PASSED_HEADERS: Final = ("authorization", "accept", "openai-organization", "openai-project")
"""The headers of a request that another server receives."""

Responder = Callable[[ChatRequest], ChatReply]


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
        models: Sequence[str] = ("scripted",),
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
        self._models = models
        self._changed = threading.Condition()
        self._records: deque[RequestRecord] = deque(maxlen=keep)
        self._count = 0
        self._violations: list[str] = []
        self._failures: deque[ChatReply] = deque()
        self._responder: Responder = echo
        self._address: Callable[[ChatRequest], str] | None = None
        self._conversations: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def start(self) -> Self:
        """Listen, and set `base_url`, which stays the same after a stop and another start.

        Raise OSError if the port is taken.
        """
        listener = socket.create_server((self._host, self._port), backlog=BACKLOG)
        # Accepted sockets inherit TCP_NODELAY. asyncio sets it only on sockets that name their protocol, unlike these.
        # Without it the second chunk waits up to 40 ms for the client's delayed acknowledgement of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        def protocol() -> asyncio.StreamReaderProtocol:
            inbox = WatchedReader()
            return asyncio.StreamReaderProtocol(inbox, lambda _, writer: self._connected(inbox, writer))

        server = await self._loop.create_server(protocol, sock=listener, backlog=BACKLOG)
        await self._stopped
        self._loop.remove_reader(listener)  # no more clients: asyncio would leak the socket of a half accepted one
        await asyncio.gather(*asyncio.all_tasks() - self._conversations.keys() - {asyncio.current_task()})
        server.close()
        for task, writer in self._conversations.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted transports close their sockets

    def _connected(self, inbox: WatchedReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._converse(Connection(inbox, writer)))
        self._conversations[task] = writer
        task.add_done_callback(lambda _: self._conversations.pop(task).close())

    async def _converse(self, client: Connection) -> None:
        while (request := await client.receive()) is not None:
            record = RequestRecord(time.monotonic(), request)
            with self._changed:
                self._records.append(record)
                self._count += 1
                self._changed.notify_all()
            try:
                await self._answer(client, record)
            except BreakOff:
                return
            except ClientGone as gone:
                if not record.completed:
                    self._note(record, client_disconnected_at=gone.at)
                return

    def _note(self, record: RequestRecord, **facts: object) -> None:
        with self._changed:
            for name, value in facts.items():
                setattr(record, name, value)
            self._changed.notify_all()

    async def _answer(self, client: Connection, record: RequestRecord) -> None:
        if self._address is not None and record.request.method == "POST" and not self.has_failures:
            await self._pass_on(client, record, self._address(record.request))
            return
        reply = self._reply(record.request)
        self._note(record, status=reply.status)
        if record.request.stream and reply.status < 400:
            await self._send_stream(client, record, reply)
        else:
            await self._send_body(client, record, reply)

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

    async def _send_stream(self, client: Connection, record: RequestRecord, reply: ChatReply) -> None:
        stream, slow = self._dialect.stream(record.request, reply), self.slow
        await client.fault(reply, sent=0)
        await client.send_head(reply, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        await client.pause(reply.delay)
        while reply.held_until is not None and not reply.held_until.is_set():
            await client.pause(0.01)
        await client.send_chunk(stream.opening)
        for sent, chunk in enumerate(stream.chunks, start=1):
            await client.pause(reply.interval * slow if sent > 1 else 0)
            self._note(record, chunks_sent=sent)
            await client.send_chunk(chunk)
            await client.fault(reply, sent)
        await client.fault(reply, math.inf)
        await client.pause(0)
        self._note(record, completed=True)
        await client.send_chunk(stream.ending, last=True)

    async def _pass_on(self, client: Connection, record: RequestRecord, url: str) -> None:
        """Send the request to another server, and its answer to the client, as it arrives. 502 if there is none."""
        self._refusal(record.request)
        headers = {name: value for name, value in record.request.headers.items() if name in _PASSED_HEADERS}
        try:
            async with (
                aiohttp.ClientSession(trust_env=True, timeout=aiohttp.ClientTimeout(total=None)) as session,
                session.post(url, json=record.request.body, headers=headers) as answer,
            ):
                self._note(record, status=answer.status)
                kind = {"Content-Type": answer.content_type, "Transfer-Encoding": "chunked"}
                passed = {name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers}
                await client.send_head(ChatReply(status=answer.status), kind | passed)
                async for data in answer.content.iter_any():
                    self._note(record, chunks_sent=record.chunks_sent + 1)
                    await client.send_chunk(data)
                    await client.pause(0)
                self._note(record, completed=True)
                await client.send(b"0\r\n\r\n")
        except aiohttp.ClientError as error:
            if record.status is not None:
                raise BreakOff from error
            await self._send_body(client, record, ChatReply(status=502, text=f"{url}: {error!r}"))

    async def _send_body(self, client: Connection, record: RequestRecord, reply: ChatReply) -> None:
        body = self._body(record.request, reply)
        await client.fault(reply, math.inf)
        await client.pause(reply.delay)
        self._note(record, completed=True)
        await client.send_head(reply, {"Content-Type": "application/json", "Content-Length": len(body)})
        await client.send(body)

    def _body(self, request: ChatRequest, reply: ChatReply) -> bytes:
        if reply.garbage is not None:
            return reply.garbage
        if reply.status >= 400:
            return encoded(self._dialect.error_body(ChatRefusal(reply.text, status=reply.status, code=reply.code)))
        if request.method == "GET":
            return encoded(model_list(self._models))
        return encoded(self._dialect.completion(request, reply))


def echo(request: ChatRequest) -> ChatReply:
    """Return the default reply, the last user message."""
    return ChatReply(text=f"echo: {request.last_user}")
