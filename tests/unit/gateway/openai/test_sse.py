"""The stream that a response holds for its caller is released at each of its ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from roboco.gateway.openai.sse import EventStream

FRAMES = [b"data: 1\n\n", b"data: 2\n\n"]
LARGE = b"data: " + bytes(range(32, 120)) * 4000 + b"\n\n"


async def frames(ending: str) -> AsyncGenerator[bytes, None]:
    """Yield two frames, and end as a test asks for."""
    for frame in FRAMES:
        yield frame
    if ending == "error":
        raise RuntimeError("the stream breaks")
    if ending != "whole":
        await asyncio.Event().wait()


class Connection:
    """A client that reads, and that goes or stops reading as a test asks for."""

    def __init__(self, ending: str) -> None:
        self._ending = ending
        self.released = 0
        self.released_at_send: list[int] = []
        self.sent: list[dict[str, Any]] = []
        self.read_all = asyncio.Event()

    def release(self) -> None:
        self.released += 1

    async def receive(self) -> dict[str, Any]:
        await self.read_all.wait()
        if self._ending != "disconnect":
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.released_at_send.append(self.released)
        self.sent.append(message)
        if message.get("body") == FRAMES[-1]:
            self.read_all.set()
            if self._ending == "send fails":
                raise OSError("the connection is lost")


@pytest.mark.parametrize("ending", ["whole", "error", "disconnect", "exit", "cancelled", "send fails"])
def test_each_end_releases_the_stream_of_the_caller_once_and_not_earlier(ending: str) -> None:
    async def scenario() -> Connection:
        connection, closing, held = Connection(ending), asyncio.Event(), AsyncExitStack()
        held.callback(connection.release)
        response = EventStream(frames(ending), closing, 10.0, held)
        serving = asyncio.create_task(response({"type": "http"}, connection.receive, connection.send))
        await connection.read_all.wait()
        if ending == "exit":
            closing.set()
        if ending == "cancelled":
            serving.cancel()
        await asyncio.wait([serving])
        return connection

    connection = asyncio.run(scenario())
    assert connection.released == 1
    assert set(connection.released_at_send) == {0}
    whole = connection.sent[-1].get("more_body") is False
    assert whole == (ending == "whole")


class StoppedReader:
    """A client that does not read: the server takes one piece, and waits then."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.may_read = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(self, message: Any) -> None:
        self.taken.append(message.get("body", b""))
        if len(self.taken[-1]) > 100:
            await self.may_read.wait()


def test_a_large_frame_waits_for_its_client_in_pieces() -> None:
    """A server copies each body that it is given, and keeps the copy until the client has read it."""

    async def large() -> AsyncGenerator[bytes, None]:
        yield LARGE

    async def scenario() -> StoppedReader:
        client = StoppedReader()
        response = EventStream(large(), asyncio.Event(), 10.0, AsyncExitStack())
        serving = asyncio.create_task(response({"type": "http"}, client.receive, client.send))
        for _ in range(20):
            await asyncio.sleep(0)
        assert sum(map(len, client.taken)) <= 70_000
        client.may_read.set()
        await serving
        return client

    taken = asyncio.run(scenario()).taken
    assert b"".join(taken).endswith(LARGE)
    assert max(map(len, taken)) <= 65_536
