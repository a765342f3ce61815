"""A scripted model server: chat completions over real HTTP, with real streaming and real faults.

In a test:

    with ModelServer() as server:
        server.script(lambda request: Reply(text=f"you said {request.last_user}"))
        client = OpenAI(base_url=server.base_url, api_key="any")

As a process: `python -m tests.servers.model_server --port 8080 --tokens 200 --interval 0.02`

The answer depends on the request alone, never on the order of calls, as turns are repeated after crashes;
only `fail_next` counts. One asyncio thread serves all streams.
"""

import argparse
import asyncio
import contextlib
import json
import math
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from tests.servers import chat_protocol
from tests.servers.chat_protocol import Reply, Request

__all__ = ["ModelServer", "Record", "Reply", "Request"]

BACKLOG = 1024

Responder = Callable[[Request], Reply]


@dataclass
class Record:
    """A request and what became of it; times are of `time.monotonic`.

    Completed: all of the answer was sent, an error included. Noted before the client can see it.
    """

    time: float
    request: Request
    status: int | None = None
    chunks_sent: int = 0
    completed: bool = False
    client_disconnected_at: float | None = None


class ClientGone(Exception):
    """The client closed the connection, at this monotonic time."""

    def __init__(self, at: float) -> None:
        super().__init__(at)
        self.at = at


class BreakOff(Exception):  # noqa: N818 - an order of the script, not an error
    """The script wants the connection closed here."""


class Inbox(asyncio.StreamReader):
    """A stream reader that tells when the other side closed, without anyone reading."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def feed_eof(self) -> None:
        self._close()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        self._close()
        super().set_exception(exc)

    def _close(self) -> None:
        if not self.gone.done():
            self.gone.set_result(time.monotonic())


class Connection:
    """One client's connection; all but `receive` raise ClientGone at once when the client closes it."""

    def __init__(self, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        self._inbox = inbox
        self._writer = writer

    async def receive(self) -> tuple[Request, bytes] | None:
        """The next request and its body as it came, or None when there are no more."""
        try:
            head = (await self._inbox.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await self._inbox.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        method, path, _ = first.split(" ")
        return Request(method, path, headers, _object(body)), body

    async def pause(self, seconds: float | None) -> None:
        """Wait, forever if None; 0 lets other streams go on."""
        done, _ = await asyncio.wait({self._inbox.gone}, timeout=seconds)
        if done:
            raise ClientGone(self._inbox.gone.result())

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise ClientGone(time.monotonic()) from error

    async def send_chunk(self, data: bytes) -> None:
        """Send a part of a chunked body; an empty one ends the body."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def send_head(self, reply: Reply, **headers: object) -> None:
        lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in {**headers, **reply.headers}.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def fault(self, reply: Reply, sent: float) -> None:
        """Break off or hang, if the reply says so after this many chunks."""
        if reply.break_after is not None and sent >= reply.break_after:
            raise BreakOff
        if reply.hang_after is not None and sent >= reply.hang_after:
            await self.pause(None)


class ModelServer:
    """The server, running in a daemon thread between `start` and `stop`, or within a `with` block.

    keep: how many records to hold, the newest; None is all.
    """

    def __init__(
        self, port: int = 0, *, models: Sequence[str] = ("scripted",), keep: int | None = None
    ) -> None:
        self.base_url = ""
        self._port = port
        self._models = models
        self._changed = threading.Condition()
        self._records: deque[Record] = deque(maxlen=keep)
        self._violations: list[str] = []
        self._failures: deque[Reply] = deque()
        self._responder: Responder = echo
        self._writers: set[asyncio.StreamWriter] = set()

    def start(self) -> Self:
        """Listen; `base_url` is known from here on. A taken port raises OSError."""
        listener = socket.create_server(("127.0.0.1", self._port), backlog=BACKLOG)
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._loop = asyncio.new_event_loop()
        self._stopped = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, args=(listener,), daemon=True, name="model-server")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close all connections, in mid-stream if need be, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set_result, None)
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def script(self, responder: Responder) -> None:
        """Answer by this function from now on; it runs in the server's thread and must not block.

        If it raises, the request gets a 500, and `violations` tells.
        """
        self._responder = responder

    def fail_next(self, n: int, reply: Reply) -> None:
        """Answer the next n requests with this, whatever the responder says; calls queue up."""
        with self._changed:
            self._failures.extend([reply] * n)

    @property
    def requests(self) -> list[Record]:
        """All requests so far, in order of arrival; the records go on changing."""
        with self._changed:
            return list(self._records)

    @property
    def violations(self) -> list[str]:
        """What was wrong with the requests so far."""
        with self._changed:
            return list(self._violations)

    def wait_for(self, predicate: Callable[[list[Record]], bool], timeout: float = 5.0) -> list[Record]:  # noqa: ASYNC109
        """The records, once they satisfy the predicate; TimeoutError shows them if they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(list(self._records)), timeout):
                raise TimeoutError(f"not within {timeout} s, with {list(self._records)}")
            return list(self._records)

    def _run(self, listener: socket.socket) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        def protocol() -> asyncio.StreamReaderProtocol:
            inbox = Inbox()
            return asyncio.StreamReaderProtocol(inbox, lambda _, writer: self._connected(inbox, writer))

        server = await self._loop.create_server(protocol, sock=listener, backlog=BACKLOG)
        await self._stopped
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted transports close their sockets

    def _connected(self, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        def close(_: asyncio.Task[None]) -> None:
            self._writers.discard(writer)
            writer.close()

        self._writers.add(writer)
        self._loop.create_task(self._converse(Connection(inbox, writer))).add_done_callback(close)

    async def _converse(self, client: Connection) -> None:
        while (received := await client.receive()) is not None:
            request, body = received
            record = Record(time.monotonic(), request)
            with self._changed:
                self._records.append(record)
            try:
                await self._answer(client, record, body)
            except BreakOff:
                return
            except ClientGone as gone:
                if not record.completed:
                    self._note(record, client_disconnected_at=gone.at)
                return

    def _note(self, record: Record, **facts: object) -> None:
        with self._changed:
            for name, value in facts.items():
                setattr(record, name, value)
            self._changed.notify_all()

    async def _answer(self, client: Connection, record: Record, body: bytes) -> None:
        route = (record.request.method, record.request.path.partition("?")[0])
        payload: object = None
        match route:
            case ("POST", "/v1/chat/completions"):
                reply = self._reply(record.request)
            case ("GET", "/v1/models"):
                reply, payload = self._failure() or Reply(), self._model_list()
            case _:
                reply = self._failure() or Reply(status=404, text=f"there is no {' '.join(route)}")
        self._note(record, status=reply.status)
        if reply.status < 400 and record.request.stream:
            await self._send_stream(client, record, reply)
        else:
            await self._send_body(client, record, reply, payload)
