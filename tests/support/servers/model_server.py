"""A scripted model server: chat completions over real HTTP, with real streaming and real faults.

In a test:

    with ModelServer() as server:
        server.script(lambda request: Reply(text=f"you said {request.last_user}"))
        client = OpenAI(base_url=server.base_url, api_key="any")

As a process: `python -m tests.support.servers.model_server --port 8080 --tokens 200 --interval 0.02`

The answer depends on the request alone, never on the order of calls, since turns are repeated after crashes.
`fail_next` is the exception. One asyncio thread serves all streams.
"""

import argparse
import asyncio
import contextlib
import math
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from tests.support.servers import chat_protocol, chat_rules
from tests.support.servers.chat_protocol import Reply, Request, encoded
from tests.support.servers.http_connection import BreakOff, ClientGone, Connection, WatchedReader

__all__ = ["ModelServer", "Reply", "Request", "RequestRecord"]

BACKLOG = 1024

Responder = Callable[[Request], Reply]


@dataclass
class RequestRecord:
    """A request and the state of its answer. Times are of `time.monotonic`.

    `completed`: the server has sent the complete answer, or an error. It is set before the client can read the end.
    """

    time: float
    request: Request
    status: int | None = None
    chunks_sent: int = 0
    completed: bool = False
    client_disconnected_at: float | None = None


class ModelServer:
    """A server in a daemon thread between `start` and `stop`, or within a `with` block.

    keep: the number of newest records to hold; None holds all.
    """

    def __init__(self, port: int = 0, *, models: Sequence[str] = ("scripted",), keep: int | None = None) -> None:
        self.base_url = ""
        self._port = port
        self._models = models
        self._changed = threading.Condition()
        self._records: deque[RequestRecord] = deque(maxlen=keep)
        self._violations: list[str] = []
        self._failures: deque[Reply] = deque()
        self._responder: Responder = echo
        self._conversations: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def start(self) -> Self:
        """Listen, and set `base_url`, which stays the same after a stop and another start.

        Raise OSError if the port is taken.
        """
        listener = socket.create_server(("127.0.0.1", self._port), backlog=BACKLOG)
        # Accepted sockets inherit TCP_NODELAY. asyncio sets it only on sockets that name their protocol, unlike these.
        # Without it the second chunk waits up to 40 ms for the client's delayed acknowledgement of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._port = listener.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self._port}/v1"
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def script(self, responder: Responder) -> None:
        """Answer with this function from now on. It runs in the server's thread and must not block.

        If it raises, the server answers 500, and adds the error to `violations`.
        """
        self._responder = responder

    def fail_next(self, n: int, reply: Reply) -> None:
        """Answer the next n requests with this reply instead of the responder's. Further calls queue up."""
        with self._changed:
            self._failures.extend([reply] * n)

    @property
    def requests(self) -> list[RequestRecord]:
        """All requests so far, in order of arrival. The server keeps updating the records."""
        with self._changed:
            return list(self._records)

    @property
    def violations(self) -> list[str]:
        """The errors of all requests so far."""
        with self._changed:
            return list(self._violations)

    def wait_for(self, predicate: Callable[[list[RequestRecord]], bool], timeout: float = 30.0) -> list[RequestRecord]:
        """Return the records once they satisfy the predicate. Raise TimeoutError with them if they do not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(list(self._records)), timeout):
                raise TimeoutError(f"not within {timeout} s, with {list(self._records)}")
            return list(self._records)

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
        reply = self._reply(record.request)
        self._note(record, status=reply.status)
        if record.request.stream and reply.status < 400:
            await self._send_stream(client, record, reply)
        else:
            await self._send_body(client, record, reply)

    def _reply(self, request: Request) -> Reply:
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return self._chat_reply(request)
            case "GET", "/v1/models":
                return self._next_failure() or Reply()
            case method, path:
                return self._next_failure() or Reply(status=404, text=f"there is no {method} {path}")

    def _chat_reply(self, request: Request) -> Reply:
        """Return a queued failure, else the refusal of an invalid request, else the responder's reply."""
        found = list(chat_rules.violations(request.body))
        failure = self._next_failure()
        if not found and failure is None:
            try:
                return self._responder(request)
            except Exception as error:
                found = [f"the responder raised {error!r}"]
                failure = Reply(status=500, text=found[0])
        with self._changed:
            self._violations += found
        return failure or Reply(status=400, text=found[0])

    def _next_failure(self) -> Reply | None:
        with self._changed:
            return self._failures.popleft() if self._failures else None

    async def _send_stream(self, client: Connection, record: RequestRecord, reply: Reply) -> None:
        stream = chat_protocol.stream(record.request, reply)
        await client.fault(reply, sent=0)
        await client.send_head(reply, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        await client.pause(reply.delay)
        while reply.held_until is not None and not reply.held_until.is_set():
            await client.pause(0.01)
        await client.send_chunk(stream.opening)
        for sent, chunk in enumerate(stream.chunks, start=1):
            await client.pause(reply.interval if sent > 1 else 0)
            self._note(record, chunks_sent=sent)
            await client.send_chunk(chunk)
            await client.fault(reply, sent)
        await client.fault(reply, math.inf)
        await client.pause(0)
        self._note(record, completed=True)
        await client.send_chunk(stream.ending, last=True)

    async def _send_body(self, client: Connection, record: RequestRecord, reply: Reply) -> None:
        body = self._body(record.request, reply)
        await client.fault(reply, math.inf)
        await client.pause(reply.delay)
        self._note(record, completed=True)
        await client.send_head(reply, {"Content-Type": "application/json", "Content-Length": len(body)})
        await client.send(body)

    def _body(self, request: Request, reply: Reply) -> bytes:
        if reply.garbage is not None:
            return reply.garbage
        if reply.status >= 400:
            return encoded(chat_protocol.error_body(reply.status, reply.text, reply.code))
        if request.method == "GET":
            return encoded(chat_protocol.model_list(self._models))
        return encoded(chat_protocol.completion(request, reply))


def echo(request: Request) -> Reply:
    """Return the default reply, the last user message."""
    return Reply(text=f"echo: {request.last_user}")


def main() -> None:
    """Serve until SIGTERM with the options' number of tokens and interval for all requests, or with an echo."""
    parser = argparse.ArgumentParser(description="A scripted model server for benchmarks.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--tokens", type=int, help="chunks of each answer; without it, an echo")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before the first token")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds from token to token")
    options = parser.parse_args()

    def respond(request: Request) -> Reply:
        tokens = None if options.tokens is None else ["token "] * options.tokens
        return replace(echo(request), chunks=tokens, delay=options.delay, interval=options.interval)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), ModelServer(options.port, keep=0) as server:
        server.script(respond)
        print(server.base_url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
