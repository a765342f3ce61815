"""Streams for OpenAI's clients: only the body of a whole answer has an end, and a client that goes is reported."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from roboco.gateway.openai.sse import Frames
from roboco.gateway.streams.live_response import LiveResponse, OpenStreams
from tests.support.gateway_streams import AsgiConnection

FRAMES = [b"data: 1\n\n", b"data: 2\n\n"]


async def frames(ending: str) -> AsyncGenerator[bytes, None]:
    """Yield two frames, and end as a test asks for."""
    for frame in FRAMES:
        yield frame
    if ending == "error":
        raise RuntimeError("the stream breaks")
    if ending != "whole":
        await asyncio.Event().wait()


@pytest.mark.parametrize("ending", ["whole", "error", "disconnect", "exit"])
def test_only_a_whole_answer_has_an_end(ending: str) -> None:
    async def main() -> None:
        closing, client, gone, slot = asyncio.Event(), AsgiConnection(), asyncio.Event(), asyncio.Lock()

        async def on_disconnect() -> None:
            gone.set()

        await slot.acquire()
        streams = OpenStreams(3600.0, 3600.0, closing)
        response = LiveResponse(Frames(frames(ending)), streams, slot, 3600.0, on_disconnect)
        serving = asyncio.create_task(client.run(response))
        await client.until(lambda: client.body.endswith(FRAMES[-1]))
        if ending == "exit":
            closing.set()
        if ending == "disconnect":
            client.disconnected.set()
        await asyncio.wait_for(serving, 60)
        assert client.body == b": open\n\n" + b"".join(FRAMES)
        assert (client.complete, gone.is_set()) == (ending == "whole", ending == "disconnect")
        assert not slot.locked()

    asyncio.run(main())
