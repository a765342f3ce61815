"""Form and Source: the frames of a stream, as server-sent events or as lines of JSON, and where they come from. Pure.

    item ─► SSE     id, event, data, blank line
         └► NDJSON  one line: {"id": ..., "type": ..., "data": ...}

Every frame with an id is a place at which a client can resume. A client that reads frames alone knows the whole stream
by its last frame: `stream_end` with the reason `task_end`. Nothing else is the end of a task. A browser resumes by
itself after any other end. A reader of lines may not, so its connection breaks off there, without the end of the body.
"""

from collections.abc import AsyncGenerator
from typing import ClassVar, Final, Generic, TypeVar

from roboco.gateway.streams.ending import Ending

RETRY_DELAY: Final = 2000
"""Milliseconds after which a browser resumes a stream that was cut."""


class ServerSentEvents:
    """The form of `text/event-stream`. `kind` is an identifier, and ids have no quotes, spaces or line breaks."""

    media_type: ClassVar[str] = "text/event-stream"
    resumes_by_itself: ClassVar[bool] = True
    """True if every client of this form asks again after the end of a body."""

    @staticmethod
    def opening() -> bytes:
        """Return the delay of reconnections, and a comment, so that proxies pass the response on at once."""
        return f"retry: {RETRY_DELAY}\n: open\n\n".encode()

    @staticmethod
    def frame(place: str, kind: str, data: str) -> bytes:
        """Return an event. JSON has no line breaks, so the data are one line."""
        return f"id: {place}\nevent: {kind}\ndata: {data}\n\n".encode()

    @staticmethod
    def ping(place: str) -> bytes:
        """Return a comment, after the id if there is one: browsers store it without an event."""
        return f"id: {place}\n: ping\n\n".encode() if place else b": ping\n\n"

    @staticmethod
    def end(place: str, ending: Ending) -> bytes:
        """Return the last event, with the delay of the next connection."""
        delay = f"retry: {ending.delay}\n" if ending.delay is not None else ""
        named = f"id: {place}\n" if place else ""
        return f"{delay}{named}event: stream_end\ndata: {ending.json}\n\n".encode()


class LinesOfJson:
    """The form of `application/x-ndjson`."""

    media_type: ClassVar[str] = "application/x-ndjson"
    resumes_by_itself: ClassVar[bool] = False

    @staticmethod
    def opening() -> bytes:
        """Return a line without an id."""
        return b'{"type":"stream_open"}\n'

    @staticmethod
    def frame(place: str, kind: str, data: str) -> bytes:
        """Return the line of an item."""
        return f'{{"id":"{place}","type":"{kind}","data":{data}}}\n'.encode()

    @staticmethod
    def ping(place: str) -> bytes:
        """Return a line without data."""
        return f'{{"id":"{place}","type":"ping"}}\n'.encode() if place else b'{"type":"ping"}\n'

    @staticmethod
    def end(place: str, ending: Ending) -> bytes:
        """Return the last line."""
        named = f'"id":"{place}",' if place else ""
        return f'{{{named}"type":"stream_end","data":{ending.json}}}\n'.encode()


Form = ServerSentEvents | LinesOfJson
Streamed = TypeVar("Streamed")
MAX_HIDDEN: Final = 200
"""Hidden items after which a frame names the place: a client that resumes reads at most these again."""


class Source(Generic[Streamed]):
    """The items of a stream, and their frames."""

    form: type[Form]
    _hidden = 0
    """Items that are hidden since a frame has named the place."""

    @property
    def place(self) -> str:
        """The id at which the client resumes, or "" in a stream without places."""
        return ""

    def items(self) -> AsyncGenerator[Streamed | None, None]:
        """Yield the items of the stream until its end. None is no item."""
        raise NotImplementedError

    def frame(self, item: Streamed) -> bytes:
        """Return the frame of an item, and move the place behind it. Return b"" if the client needs none."""
        raise NotImplementedError

    def hidden_frame(self) -> bytes:
        """Return the frame of an item that the client does not ask for: b"", or now and then one with the place."""
        self._hidden += 1
        return self.form.ping(self.take_unsent_place()) if self._hidden >= MAX_HIDDEN else b""

    def take_unsent_place(self) -> str:
        """Return the place if no frame has named it, else "". The next frame names it."""
        unsent, self._hidden = self.place if self._hidden else "", 0
        return unsent

    def last_place(self, ending: Ending) -> str:
        """Return the id of the last frame."""
        return self.place
