"""The data of server-sent events, at whatever bytes the stream is split."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.model.sse import EventParser, iter_chunks

STREAM_BYTES = (
    b"data: a\n\ndata:b\ndata:  c\r\n\r\n: a comment\n\nevent: x\nid: 7\ndata: d\r\rdata: \xc3\xa4\n\ndata: not ended\n"
)
STREAM_DATA = [b"a", b"b\n c", b"d", b"\xc3\xa4"]


def read(*pieces: bytes) -> list[bytes]:
    """Return the data of the events in these pieces."""
    events = EventParser()
    return [data for piece in pieces for data in events.feed(piece)]


@given(st.lists(st.integers(0, len(STREAM_BYTES)), max_size=20).map(sorted))
def test_the_data_does_not_depend_on_where_the_stream_is_split(cuts: list[int]) -> None:
    pieces = [STREAM_BYTES[start:end] for start, end in zip([0, *cuts], [*cuts, len(STREAM_BYTES)], strict=True)]
    assert read(*pieces) == STREAM_DATA


def test_an_event_is_returned_with_the_byte_that_ends_it() -> None:
    events = EventParser()
    assert list(events.feed(b"data: a\n")) == []
    assert list(events.feed(b"\n")) == [b"a"]
    assert list(events.feed(b"data: b\r\n\r")) == []
    assert list(events.feed(b"\n")) == [b"b"]


FIRST, LAST = {"choices": [{"delta": {"content": "Fo"}}]}, {"choices": [{"delta": {"content": "ur."}}]}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(FIRST) + "\n" + json.dumps(LAST) + "\n",
        json.dumps(FIRST) + "\r\n\r\n" + json.dumps(LAST),
        json.dumps([FIRST, LAST], indent=2),
        f"data: {json.dumps(FIRST)}\ndata: {json.dumps(LAST)}\ndata: [DONE]\n",
        f"data: data: {json.dumps(FIRST)}\n\ndata: data: {json.dumps(LAST)}\n\n",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunks_are_found_in_other_forms_of_a_body(body: str, size: int) -> None:
    assert asyncio.run(chunks_of(body.encode(), size)) == [FIRST, LAST]


async def chunks_of(body: bytes, size: int) -> list[Any]:
    """Return the chunks of a body that arrives in pieces of this size."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    return [chunk async for chunk in iter_chunks(pieces()) if chunk is not None]


def test_lines_of_json_among_many_blank_lines_are_read_once_at_the_end() -> None:
    parser = EventParser()
    assert [list(parser.feed(b"{}\n" + b"\n" * 99)) for _ in range(2_000)] == [[]] * 2_000
    assert len(asyncio.run(chunks_of(b"".join(parser.end()), 65_536))) == 2_000
