"""Clients of the gateway's streams: the frames of a body, and an ASGI connection whose client may not read."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from roboco.gateway.streams.form import Form, LinesOfJson

JsonObject = dict[str, Any]
App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Frame:
    """A frame of a stream. `place` is the id at which a client resumes that has read it."""

    place: str
    kind: str
    data: Any = None


def frames_of(body: bytes, form: type[Form], place: str = "") -> list[Frame]:
    """Return the whole frames of a body, which may break off anywhere, of a client that had this place."""
    return _lines(body, place) if form is LinesOfJson else _events(body, place)


def shown(frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames with an item of the stream."""
    return [frame for frame in frames if frame.kind not in ("ping", "stream_open", "stream_end")]


def place_after(frames: list[Frame], before: str = "") -> str:
    """Return the place of a client that has read these frames."""
    return frames[-1].place if frames else before


def _events(body: bytes, place: str) -> list[Frame]:
    """Return the events as a browser dispatches them, and "ping" for a block without data."""
    found: list[Frame] = []
    *blocks, _ = body.decode(errors="replace").split("\n\n")
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        place = fields.get("id", place)
        data = fields.get("data")
        kind = "ping" if data is None else fields["event"]
        found.append(Frame(place, kind, None if data is None else json.loads(data)))
    return found


def _lines(body: bytes, place: str) -> list[Frame]:
    found: list[Frame] = []
    *lines, _ = body.decode(errors="replace").split("\n")
    for line in map(json.loads, lines):
        place = line.get("id", place)
        found.append(Frame(place, line["type"], line.get("data")))
    return found


class AsgiConnection:
    """A connection to an ASGI application. While `reads` is cleared, the client reads nothing."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.started: Message | None = None
        self.body = b""
        self.complete = False
        self.disconnected = asyncio.Event()
        self.changed = asyncio.Event()

    async def run(self, app: App, scope: JsonObject | None = None) -> None:
        """Serve one request."""
        try:
            await app(scope or {"type": "http"}, self.receive, self.send)
        finally:
            self.changed.set()

    async def receive(self) -> Message:
        """Return the disconnect of the client, once it disconnects."""
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Receive a part of the response."""
        if not self.disconnected.is_set():
            await self.reads.wait()
        if message["type"] == "http.response.start":
            self.started = message
        else:
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds after a part of the response."""
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()
