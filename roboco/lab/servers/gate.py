"""A TCP proxy before a server. It stops the request for which a test waits, or the answer to it.

with Gate(port) as gate:
    held = gate.hold(b"EVALSHA", answer=True)   # the server executes it, and no client gets the answer
    held.reached.wait(60)
    held.release()
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Self

_REQUEST = re.compile(rb"([A-Z]+) (/[^ ]*)")
_SIZE = 64 * 1024
Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_OVERLAP = 200
"""Bytes of the previous chunk that are searched again, since a chunk may end within a match."""


class HeldRequest:
    """The `nth` matching request. `reached` is set when it arrives, `passed` when it, or its answer, is passed on.

    `passed` is also set if the client has closed the connection.
    """

    def __init__(self, pattern: bytes, nth: int, answer: bool, loop: asyncio.AbstractEventLoop) -> None:
        self.reached = threading.Event()
        self.passed = threading.Event()
        self.answer = answer
        self._pattern = re.compile(pattern)
        self._left = nth
        self._loop = loop
        self._go = asyncio.Event()
        self._dropped = False

    def release(self) -> None:
        """Pass the request on, or its answer."""
        self._loop.call_soon_threadsafe(self._go.set)

    def drop(self) -> None:
        """Lose the request or its answer, and close the connection."""
        self._dropped = True
        self.release()

    def ends_in(self, before: bytes, data: bytes) -> bool:
        """Return True if the nth match ends in this data, which follows `before`."""
        if self._left <= 0:
            return False
        matches = self._pattern.finditer(before + data)
        self._left -= sum(match.end() > len(before) for match in matches)
        return self._left <= 0

    async def wait(self) -> bool:
        """Wait for the release. Return True if the data is passed on, False if it is dropped."""
        self.reached.set()
        await self._go.wait()
        return not self._dropped


class Gate:
    """A proxy that listens on `port` of this machine within its block, and passes data on to the server's port.

    Each HTTP request waits `delay` seconds and is counted in `requests`, by its method, a LIST of S3 as LIST. While
    `refusal` is set, it is the answer to every request.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self.held: list[HeldRequest] = []
        self._streams: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay = 0.0
        self.refusal = b""
        self.requests = Counter[str]()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self, pattern: bytes, nth: int = 1, answer: bool = False) -> HeldRequest:
        """Stop the nth request from now on that matches the pattern, or with `answer` the answer to it."""
        held = HeldRequest(pattern, nth, answer, self._loop)
        self.held.append(held)
        return held

    def connect(self, client: Side, server: Side) -> "GateConnection":
        """Return the connection of a new client."""
        return GateConnection(self, client, server)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _close(self) -> None:
        self._server.close()
        for way in list(self._streams):
            way.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        await asyncio.sleep(0.01)  # the transports close in the loop's next iterations

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        connection = self.connect((reader, writer), upstream)
        for way in (connection.pass_requests, connection.pass_answers):
            task = asyncio.ensure_future(connection.run(way))
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)


class GateConnection:
    """A client's connection, and the one to the server that belongs to it."""

    def __init__(self, gate: Gate, client: Side, server: Side) -> None:
        self.client = client
        self.server = server
        self._gate = gate
        self._answer: HeldRequest | None = None

    async def run(self, way: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Pass requests or answers on, except the held ones, until a side closes the connection."""
        try:
            await way()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for _, writer in (self.client, self.server):
                writer.close()

    async def pass_requests(self) -> None:
        """Pass requests on until the client closes the connection."""
        before = b""
        while data := await self.client[0].read(_SIZE):
            if self._gate.refusal:
                self.client[1].write(self._gate.refusal)
                await self.client[1].drain()
                return
            if (request := _REQUEST.match(data)) is not None:
                method, path = request.groups()
                self._gate.requests["LIST" if b"list-type=2" in path else method.decode()] += 1
                await asyncio.sleep(self._gate.delay)
            struck = next((held for held in self._gate.held if held.ends_in(before, data)), None)
            if struck is not None and struck.answer:
                self._answer = struck
            elif struck is not None and not await struck.wait():
                return
            await _pass_on(self.server[1], data, None if struck is not None and struck.answer else struck)
            before = data[-_OVERLAP:]

    async def pass_answers(self) -> None:
        """Pass answers on until the server closes the connection."""
        while data := await self.server[0].read(_SIZE):
            held, self._answer = self._answer, None
            if held is not None and not await held.wait():
                return
            await _pass_on(self.client[1], data, held)


async def _pass_on(writer: asyncio.StreamWriter, data: bytes, held: HeldRequest | None) -> None:
    try:
        writer.write(data)
        await writer.drain()
    finally:
        if held is not None:
            held.passed.set()
