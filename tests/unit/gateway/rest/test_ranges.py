"""Ranges of files."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.gateway.problem import Problem
from roboco.gateway.rest.files import ByteRange, requested_range

TAG = '"abc"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-3", ByteRange(0, 4)),
        ("bytes=8-", ByteRange(8, 2)),
        ("bytes=-3", ByteRange(7, 3)),
        ("bytes=3-2", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=" + "9" * 40 + "-", None),
        ("bytes=٣-", None),
    ],
)
def test_a_header_names_a_range_of_ten_bytes(header: str | None, expected: object) -> None:
    assert requested_range(header, None, TAG, 10) == expected


def test_a_range_of_another_file_is_ignored() -> None:
    assert requested_range("bytes=0-3", TAG, TAG, 10) == ByteRange(0, 4)
    assert requested_range("bytes=0-3", '"other"', TAG, 10) is None
    assert requested_range("bytes=0-3", 'W/"abc"', TAG, 10) is None


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-1", 0)])
def test_a_range_without_a_byte_is_refused(header: str, size: int) -> None:
    with pytest.raises(Problem) as raised:
        requested_range(header, None, TAG, size)
    assert (raised.value.status, raised.value.headers) == (416, {"Content-Range": f"bytes */{size}"})


@pytest.mark.parametrize("spaces", ["bytes={}x", "bytes={}-{}x", "bytes=1{}-2{}x"])
def test_a_header_of_spaces_takes_linear_time(spaces: str) -> None:
    header = spaces.format(" " * 500_000, " " * 500_000)  # minutes, if the time were quadratic
    assert requested_range(header, None, TAG, 10) is None


@given(st.text(max_size=30) | st.from_regex(r"bytes=\d*-\d*", fullmatch=True), st.integers(0, 1000))
def test_any_header_gives_a_part_of_the_file(header: str, size: int) -> None:
    with suppress(Problem):
        part = requested_range(header, None, TAG, size)
        assert part is None or 0 <= part.start < part.start + part.length <= size
