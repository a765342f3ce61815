"""Frames of a response: a slow client holds one large one, however many events repeat the text of a step."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from roboco.gateway.bodies.sent_parts import MAX_SENT_BYTES
from roboco.gateway.openai.events import ResponseEvent
from roboco.gateway.openai.following import response_frames

TEXT = "text " * MAX_SENT_BYTES


def events_of_step() -> list[ResponseEvent]:
    """Return the events of a step with a long text, which each of the last five repeats."""
    texts = ["", "", *[TEXT] * 5]
    return [ResponseEvent(number, "response.step", {"text": text}) for number, text in enumerate(texts)]


async def batches() -> AsyncGenerator[list[ResponseEvent], None]:
    """Yield the events of a step at once."""
    yield events_of_step()


def frames_after(number: int | None) -> list[bytes]:
    """Return the frames for a client whose last event has this number."""

    async def read() -> list[bytes]:
        return [frame async for frame in response_frames(batches(), number)]

    return asyncio.run(read())


def documents(frames: list[bytes]) -> list[Any]:
    """Return the documents of all events."""
    lines = b"".join(frames).decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_each_large_event_has_a_frame_of_its_own() -> None:
    frames = frames_after(None)
    assert documents(frames) == [event.document() for event in events_of_step()]
    assert len(frames) == 5
    assert max(map(len, frames)) < 1.5 * len(TEXT)


def test_small_events_share_a_frame_and_known_ones_have_none() -> None:
    assert [document["sequence_number"] for document in documents(frames_after(5))] == [6]
    first = frames_after(None)[0]
    assert [document["sequence_number"] for document in documents([first])] == [0, 1, 2]
