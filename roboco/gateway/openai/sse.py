"""sse: server-sent events as OpenAI's clients read them, served by `streams/live_response.py`.

These clients take the end of a body for the end of the answer, also in mid-sentence, and they know no last frame of
another kind. So the body of a stream that is not whole has no end: its client raises an error after the text that it
has. Such a stream has no greatest age.
"""

import json
import math
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, ClassVar

from roboco.gateway.gateway import Gateway
from roboco.gateway.streams.ending import Ending
from roboco.gateway.streams.form import ServerSentEvents, Source
from roboco.gateway.streams.live_response import LiveResponse, OnDisconnect


class OpenAIEvents(ServerSentEvents):
    """The form of the frames. They have no places: a client resumes by the numbers of events."""

    resumes_by_itself: ClassVar[bool] = False

    @staticmethod
    def opening() -> bytes:
        """Return a comment: proxies and clients see at once that the stream has begun."""
        return b": open\n\n"

    @staticmethod
    def frame(place: str, kind: str, data: str) -> bytes:
        """Return an event, with its type if that is not empty."""
        return f"event: {kind}\ndata: {data}\n\n".encode() if kind else f"data: {data}\n\n".encode()

    @staticmethod
    def end(place: str, ending: Ending) -> bytes:
        """Return nothing: the last event was the answer's."""
        return b""


class Frames(Source[bytes]):
    """Frames as the source of a stream."""

    form = OpenAIEvents

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self._frames = frames

    def items(self) -> AsyncGenerator[bytes, None]:
        """Return the frames."""
        return self._frames

    def frame(self, item: bytes) -> bytes:
        """Return the frame."""
        return item


def frame(document: dict[str, Any], event: str = "") -> bytes:
    """Return a server-sent event."""
    return OpenAIEvents.frame("", event, json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def event_stream(
    gateway: Gateway,
    frames: AsyncGenerator[bytes, None],
    held: AsyncExitStack,
    on_disconnect: OnDisconnect | None = None,
) -> LiveResponse[bytes]:
    """Return the response of frames. It takes over what is held: one of the caller's streams."""
    return LiveResponse(Frames(frames), gateway.streams, held.pop_all(), math.inf, on_disconnect)
