"""Gateways as processes, clients that resume until the end of a task, and a proxy that cuts connections."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Self

import httpx2
from openai import OpenAI

from roboco import Task
from roboco.gateway.streams.form import Form, ServerSentEvents
from roboco.local.process import Server, free_port, wait_ready
from tests.support import forked
from tests.support.gateway_streams import Frame, frames_of, place_after, shown
from tests.support.stack import ROOT, Stack

RETRY_DELAY = 0.05


class GatewayProcess:
    """`roboco serve` at one port. `settings` are variables ROBOCO_GATEWAY_*; without them, all callers are local."""

    def __init__(self, stack: Stack, port: int = 0, **settings: object) -> None:
        self.stack = stack
        self._settings = {f"ROBOCO_GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
        self.port = port or free_port()
        self.log = stack.folder / f"gateway-{self.port}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        assert "Traceback" not in self.log.read_text()

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The address of OpenAI's API."""
        return f"{self.url}/openai/v1"

    def client(self, port: int | None = None, **options: Any) -> OpenAI:
        """Return OpenAI's client of the gateway, or of a proxy before it."""
        url = self.base_url.replace(f":{self.port}/", f":{port or self.port}/")
        return OpenAI(base_url=url, api_key="none", **{"timeout": 60, **options})

    def start(self) -> Server:
        """Start the process, and wait until it takes requests."""
        variables = self.stack.environment | {"ROBOCO_GATEWAY_AUTHENTICATION": "false"} | self._settings
        arguments = ["serve", "--port", str(self.port)]
        self.server = forked.start("gateway", arguments, program="roboco", env=variables, log=self.log, cwd=ROOT)
        wait_ready(self.server, self.lives, 180)
        return self.server

    def lives(self) -> bool:
        """Return True if the process answers."""
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{self.url}/healthz", timeout=5).status_code == 200
        return False

    def end(self, number: signal.Signals, seconds: float = 60) -> None:
        """Send a signal to the process, and wait at most these seconds for its exit."""
        os.kill(self.server.pid, number)
        self.server.process.wait(seconds)


class StreamClient:
    """A client that follows streams at one of some gateways after the other, and resumes after its last whole frame."""

    def __init__(self, urls: Sequence[str], path: str, form: type[Form] = ServerSentEvents, **query: str) -> None:
        self._urls = urls
        self._path = path
        self._query = query
        self.form = form
        self.frames: list[Frame] = []
        self.place = ""
        self.connections = 0
        self.refused: list[int] = []

    @property
    def shown(self) -> list[Frame]:
        """The frames with items."""
        return shown(self.frames)

    async def follow(self, cut: Callable[[list[Frame]], bool] = lambda _: False) -> Self:
        """Read until the end. Cut each connection as soon as `cut` returns True for its frames."""
        limits, timeout = httpx2.Limits(max_connections=None), httpx2.Timeout(30)
        async with httpx2.AsyncClient(limits=limits, timeout=timeout) as client:
            for number in count():
                if await self._read(client, self._urls[number % len(self._urls)], cut):
                    return self
                await asyncio.sleep(RETRY_DELAY)
        raise AssertionError

    async def _read(self, client: httpx2.AsyncClient, url: str, cut: Callable[[list[Frame]], bool]) -> bool:
        """Read one connection. Return True if it ends the stream."""
        headers = {"Accept": self.form.media_type} | ({"Last-Event-ID": self.place} if self.place else {})
        body, before = b"", len(self.frames)
        with suppress(httpx2.TransportError):
            async with client.stream("GET", f"{url}{self._path}", params=self._query, headers=headers) as answer:
                self.connections += 1
                if answer.status_code == 204:
                    return True
                if answer.status_code != 200:
                    self.refused.append(answer.status_code)
                    return False
                async for data in answer.aiter_raw():
                    body = self._take(body + data)
                    if cut(self.frames[before:]):
                        break
        return bool(self.frames) and self.frames[-1].kind == "stream_end" and not self.frames[-1].data["resume"]

    def _take(self, body: bytes) -> bytes:
        """Add the whole frames of these bytes, and return the rest, which is the beginning of the next one."""
        whole, end, rest = body.rpartition(b"\n\n" if self.form is ServerSentEvents else b"\n")
        self.frames += frames_of(whole + end, self.form, self.place)
        self.place = place_after(self.frames, self.place)
        return rest


def whole_items(items: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return types and data, with the text of each step in place of its pieces: a late client gets it whole."""
    found: list[Any] = []
    texts: dict[str, str] = {}
    for kind, data in items:
        if kind == "text_part_delta":
            texts[data["step_id"]] = ("" if data["replace"] else texts.get(data["step_id"], "")) + data["text"]
            continue
        found.append((kind, data))
        if kind == "step_final":
            found.append(texts.pop(data["step"]["step_id"], ""))
    return found


def items_of_task(task: Task) -> list[Any]:
    """Return the items that a follower without a gateway receives, as `whole_items`."""
    return whole_items([(item.type, item.data.model_dump(mode="json")) for item in task.stream()])


def items_of_client(client: StreamClient) -> list[Any]:
    """Return the items that a client has received, as `whole_items`."""
    return whole_items([(frame.kind, frame.data) for frame in client.shown])
