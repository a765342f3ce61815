"""Clients that stop reading their streams: the gateway's memory is bounded, and others notice nothing."""

import asyncio
import socket
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roboco.gateway.streams.form import ServerSentEvents
from tests.support.gateway_process import GatewayProcess, items_of_task, whole_items
from tests.support.gateway_streams import frames_of, shown
from tests.support.memory_ports.world import team_of
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

STOPPED = 40
LIVE = 3
PIECE = "0123456789abcdef" * 512
PIECES = 440
"""The text of the task: 3.6 MB in pieces, and as much again in its step."""
MAX_GROWTH_MEGABYTES = 80.0
"""Growth of the gateway's memory for all streams: without a bound the step alone takes 8 MB for each."""
WRITER = team_of(agents=[{"name": "writer", "prompt": "You write."}])
SMALL_WINDOW = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 131_072)]
"""The option of a socket whose system keeps little that the client has not read."""


def memory_megabytes(gateway: GatewayProcess, field: str) -> float:
    """Return the memory of the process: VmRSS now, or VmHWM at most."""
    lines = Path(f"/proc/{gateway.server.pid}/status").read_text().splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(found) / 1000


class Reader:
    """A client of one stream, which may stop reading and go on later."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._data = answer.aiter_raw()
        self.body = bytearray()

    async def read(self, until: bytes | None = None) -> None:
        """Read until these bytes have arrived, or to the end."""
        async for data in self._data:
            self.body += data
            if until is not None and until in self.body:
                break

    def items(self) -> list[Any]:
        """Return the received items, as `items_of_task` does."""
        received = shown(frames_of(bytes(self.body), ServerSentEvents))
        return whole_items([(frame.kind, frame.data) for frame in received])


def test_clients_that_stop_reading_fill_no_memory_and_resume(shared_stack: Stack) -> None:
    may_speak = threading.Event()
    pieces = [f"{number} {PIECE}" for number in range(PIECES)]
    shared_stack.model.script(lambda _: Reply(chunks=pieces, interval=0.005, held_until=may_speak))

    async def main() -> None:
        with GatewayProcess(shared_stack) as gateway:
            task = await asyncio.to_thread(shared_stack.orchestrator.run, WRITER, "Go.")
            url = f"{gateway.url}/v1/tasks/{task.task_id}/events"
            limits = httpx2.Limits(max_connections=None)
            transport = httpx2.AsyncHTTPTransport(socket_options=SMALL_WINDOW, limits=limits)
            async with httpx2.AsyncClient(transport=transport, timeout=60) as client, AsyncExitStack() as streams:
                open_streams = [
                    await streams.enter_async_context(client.stream("GET", url)) for _ in range(STOPPED + LIVE)
                ]
                readers = [Reader(stream) for stream in open_streams]
                await asyncio.gather(*(reader.read(b"event_user_message") for reader in readers))
                before = memory_megabytes(gateway, "VmRSS")
                may_speak.set()
                await asyncio.gather(*(reader.read() for reader in readers[STOPPED:]))
                growth = memory_megabytes(gateway, "VmHWM") - before
                assert growth < MAX_GROWTH_MEGABYTES
                expected = await asyncio.to_thread(items_of_task, task)
                assert len(readers[0].body) < len(PIECE) * PIECES / 4, "it has not read on"
                await readers[0].read()
                for reader in (readers[0], *readers[STOPPED:]):
                    assert reader.items() == expected

    try:
        asyncio.run(asyncio.wait_for(main(), 120))
    finally:
        may_speak.set()
