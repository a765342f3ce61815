"""The data of server-sent events, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.adapters.model.sse import EventParser

TOLD = (
    b"data: a\n\ndata:b\ndata:  c\r\n\r\n: a comment\n\nevent: x\nid: 7\ndata: d\r\rdata: \xc3\xa4\n\ndata: not ended\n"
)
DATA = [b"a", b"b\n c", b"d", b"\xc3\xa4"]


def read(*pieces: bytes) -> list[bytes]:
    """The data that the pieces hold."""
    events = EventParser()
    return [data for piece in pieces for data in events.feed(piece)]


@given(st.lists(st.integers(0, len(TOLD)), max_size=20).map(sorted))
def test_where_the_bytes_are_cut_changes_nothing(cuts: list[int]) -> None:
    pieces = [TOLD[start:end] for start, end in zip([0, *cuts], [*cuts, len(TOLD)], strict=True)]
    assert read(*pieces) == DATA


def test_an_event_is_told_with_the_byte_that_ends_it() -> None:
    events = EventParser()
    assert list(events.feed(b"data: a\n")) == []
    assert list(events.feed(b"\n")) == [b"a"]
    assert list(events.feed(b"data: b\r\n\r")) == []
    assert list(events.feed(b"\n")) == [b"b"]


@pytest.mark.parametrize("nothing", [b"", b"\n\n\n", b": ping\n\n", b"event: done\n\n", b"retry: 10\nid: 1\n\n"])
def test_what_has_no_data_is_no_event(nothing: bytes) -> None:
    assert read(nothing) == []


def test_a_long_line_in_small_pieces() -> None:
    pieces = [b"data: ", *[b"x" * 100] * 20_000, b"\n\n"]
    assert [len(data) for data in read(*pieces)] == [2_000_000]
