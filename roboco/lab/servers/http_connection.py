"""An HTTP/1.1 connection of a client to the scripted model server."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from http.client import responses
from typing import Any, Final

from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class ClientGone(Exception):
    """The client closed the connection, at this monotonic time."""

    def __init__(self, at: float) -> None:
        super().__init__(at)
        self.at = at


class BreakOff(Exception):
    """The reply closes the connection at this point."""


class WatchedReader(asyncio.StreamReader):
    """A stream reader that reports when the other side closed, also while no task reads."""

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
    """A client's connection. All methods but `receive` raise ClientGone as soon as the client closes it."""

    def __init__(self, inbox: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self._inbox = inbox
        self._writer = writer

    async def receive(self) -> ChatRequest | None:
        """Return the next request, or None if the client has closed the connection."""
        try:
            head = (await self._inbox.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await self._inbox.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        return ChatRequest(method, path, headers, _object(body), query)

    async def pause(self, seconds: float | None) -> None:
        """Wait for some seconds, or without an end if None. With 0, yield to other streams."""
        done, _ = await asyncio.wait({self._inbox.gone}, timeout=seconds)
        if done:
            raise ClientGone(self._inbox.gone.result())

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise ClientGone(time.monotonic()) from error

    async def send_chunk(self, data: bytes, *, last: bool = False) -> None:
        """Send a part of a chunked body, and after the last one the end of the body."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if last else b""))

    async def send_head(self, reply: ChatReply, headers: Mapping[str, object]) -> None:
        lines = [f"HTTP/1.1 {reply.status} {responses.get(reply.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **reply.headers}.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def fault(self, reply: ChatReply, sent: float) -> None:
        """Raise BreakOff or hang, if the reply demands it after this number of chunks."""
        if reply.break_after is not None and sent >= reply.break_after:
            raise BreakOff
        if reply.hang_after is not None and sent >= reply.hang_after:
            await self.pause(None)


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
