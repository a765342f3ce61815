"""LiveResponse: pings, greatest age, exit, disconnects, clients that read nothing, and errors of the source."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from roboco.errors import CorruptHistory, TransientError
from roboco.gateway.streams.ending import Ending
from roboco.gateway.streams.form import Form, LinesOfJson, ServerSentEvents, Source
from roboco.gateway.streams.live_response import LiveResponse, OpenStreams, abort_quietly
from tests.support.gateway_streams import AsgiConnection, Frame, frames_of

FOREVER = 3600.0


class Letters(Source[str]):
    """A source of letters. Of a hidden one, an upper-case letter, the next frame names the place."""

    place: str = ""

    def __init__(self, form: type[Form]) -> None:
        self.form = form
        self.queue: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self.taken = 0
        self.closed = False
        self.place = ""
        self._unsent = ""

    async def items(self) -> AsyncGenerator[str | None, None]:
        """Yield letters until a None."""
        try:
            while (found := await self.queue.get()) is not None:
                if isinstance(found, Exception):
                    raise found
                self.taken += 1
                yield found
        finally:
            self.closed = True

    def frame(self, item: str) -> bytes:
        """Return the frame of a letter."""
        self.place = item
        self._unsent = item if item.isupper() else ""
        return b"" if item.isupper() else self.form.frame(item, "letter", json.dumps(item))

    def take_unsent_place(self) -> str:
        """Return the place of a hidden letter."""
        unsent, self._unsent = self._unsent, ""
        return unsent

    def last_place(self, ending: Ending) -> str:
        """Return the place of the last letter."""
        return f"{self.place}~" if ending.final else self.place


@dataclass
class Opened:
    """A stream of letters and its client."""

    source: Letters
    streams: OpenStreams
    closing: asyncio.Event
    client: AsgiConnection = field(default_factory=AsgiConnection)
    released: bool = False

    async def serve(self) -> None:
        """Serve the request."""
        slot = AsyncExitStack()
        slot.callback(self._release)
        await self.client.run(LiveResponse(self.source, self.streams, slot))

    def frames(self) -> list[Frame]:
        """Return the frames that the client has read, without the opening."""
        return frames_of(self.client.body, self.source.form)[1:]

    def kinds(self) -> list[str]:
        """Return the types of the frames that the client has read."""
        return [frame.kind for frame in self.frames()]

    def _release(self) -> None:
        self.released = True


Scenario = Callable[[Opened, "asyncio.Task[None]"], Coroutine[Any, Any, None]]


def play(scenario: Scenario, form: type[Form] = ServerSentEvents, ping: float = FOREVER, age: float = FOREVER) -> None:
    """Open a stream, play the scenario, and assert that nothing of the stream remains."""

    async def main() -> None:
        closing = asyncio.Event()
        opened = Opened(Letters(form), OpenStreams(ping, age, closing), closing)
        serving = asyncio.create_task(opened.serve())
        await opened.client.until(lambda: bool(opened.client.body))
        async with asyncio.timeout(60):
            await scenario(opened, serving)
        assert (opened.released, opened.source.closed, opened.streams._streams) == (True, True, set())
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 60)

    asyncio.run(main())


@pytest.mark.parametrize("form", [ServerSentEvents, LinesOfJson])
def test_a_stream_opens_at_once_and_ends_with_its_last_item(form: type[Form]) -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        assert opened.client.body == form.opening()
        assert opened.client.started is not None
        headers = {name.decode(): value.decode() for name, value in opened.client.started["headers"]}
        assert headers["cache-control"] == "no-store, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert headers["content-type"].startswith(form.media_type)
        for found in ("a", "b", None):
            opened.source.queue.put_nowait(found)
        await serving
        assert opened.client.complete
        assert opened.frames() == [
            Frame("a", "letter", "a"),
            Frame("b", "letter", "b"),
            Frame("b~", "stream_end", {"reason": "task_end", "resume": False}),
        ]

    play(scenario, form)


def test_pings_are_sent_in_silence_only_and_name_the_place_of_hidden_items() -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        for found in ("a", "B"):
            opened.source.queue.put_nowait(found)
        await opened.client.until(lambda: opened.kinds().count("ping") == 2)
        assert [frame.place for frame in opened.frames()] == ["a", "B", "B"]
        opened.source.queue.put_nowait(None)
        await serving

    play(scenario, ping=0.05)


@pytest.mark.parametrize("form", [ServerSentEvents, LinesOfJson])
@pytest.mark.parametrize("reason", ["lifetime", "closing"])
def test_a_stream_that_is_too_old_or_in_a_process_that_exits_ends_at_an_id(form: type[Form], reason: str) -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        for found in ("a", "B"):
            opened.source.queue.put_nowait(found)
        await opened.client.until(lambda: "letter" in opened.kinds())
        if reason == "closing":
            opened.closing.set()
        await serving
        assert opened.frames()[-1] == Frame("B", "stream_end", {"reason": reason, "resume": True})
        assert opened.client.complete == form.resumes_by_itself, "a reader of lines sees a broken connection"

    play(scenario, form, age=0.2 if reason == "lifetime" else FOREVER)


def test_a_disconnect_ends_the_wait_for_an_item() -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        await asyncio.sleep(0)
        opened.client.disconnected.set()
        await serving
        assert not opened.client.complete

    play(scenario)


def test_a_client_that_reads_nothing_stops_its_source_and_reads_on_later() -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        opened.client.reads.clear()
        for found in "abcdef":
            opened.source.queue.put_nowait(found)
        for _ in range(50):
            await asyncio.sleep(0)
        assert opened.source.taken == 1, "no item is taken before the client has read the one before"
        opened.client.reads.set()
        opened.source.queue.put_nowait(None)
        await serving
        assert opened.kinds() == ["letter"] * 6 + ["stream_end"]

    play(scenario)


@pytest.mark.parametrize("waits_for_ping", [False, True])
def test_a_client_that_reads_nothing_at_the_end_is_disconnected(waits_for_ping: bool) -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        opened.client.reads.clear()
        if waits_for_ping:
            await asyncio.sleep(0.2)
        else:
            opened.source.queue.put_nowait("a")
            await asyncio.sleep(0)
        opened.closing.set()
        await serving
        assert not opened.client.complete
        assert opened.kinds() == []

    play(scenario, ping=0.05 if waits_for_ping else FOREVER)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TransientError("redis is silent"), "unavailable"),
        (CorruptHistory("step 3"), "corrupt_history"),
        (KeyError(), "internal"),
    ],
)
@pytest.mark.parametrize("form", [ServerSentEvents, LinesOfJson])
def test_an_error_of_the_source_is_the_last_frame(
    form: type[Form], error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(opened: Opened, serving: "asyncio.Task[None]") -> None:
        for found in ("a", error):
            opened.source.queue.put_nowait(found)
        await serving
        last = opened.frames()[-1]
        assert (last.place, last.kind, last.data["reason"], last.data["code"]) == ("a", "stream_end", "error", code)
        assert last.data["resume"]
        assert opened.client.complete == form.resumes_by_itself

    play(scenario, form)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(errors) == (code == "internal"), "an error that no client should see is in the log"


def test_an_aborted_response_is_no_error_in_the_log_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    log, message = logging.getLogger("uvicorn.error"), "ASGI callable returned without completing response."

    async def respond(aborted: bool) -> None:
        if aborted:
            abort_quietly()
        log.error(message)

    async def main() -> None:
        for aborted in (True, False, True):
            await asyncio.create_task(respond(aborted))

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [message]
