"""Ranges of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.gateway.rest.ranges import ByteRange, Unsatisfiable, requested_range

TAG = '"abc"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-3", ByteRange(0, 4)),
        ("bytes=8-", ByteRange(8, 2)),
        ("bytes=8-99", ByteRange(8, 2)),
        ("bytes=-3", ByteRange(7, 3)),
        ("bytes=-99", ByteRange(0, 10)),
        ("bytes=10-", Unsatisfiable()),
        ("bytes=-0", Unsatisfiable()),
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


def test_an_empty_file_has_no_range() -> None:
    assert requested_range("bytes=0-", None, TAG, 0) == Unsatisfiable()
    assert requested_range("bytes=-1", None, TAG, 0) == Unsatisfiable()


@pytest.mark.parametrize("spaces", ["bytes={}x", "bytes={}-{}x", "bytes=1{}-2{}x"])
def test_a_header_of_spaces_takes_linear_time(spaces: str) -> None:
    header = spaces.format(" " * 500_000, " " * 500_000)  # minutes, if the time were quadratic
    assert requested_range(header, None, TAG, 10) is None


@given(st.text(max_size=30) | st.from_regex(r"bytes=\d*-\d*", fullmatch=True), st.integers(0, 1000))
def test_any_header_gives_a_part_of_the_file(header: str, size: int) -> None:
    part = requested_range(header, None, TAG, size)
    if isinstance(part, ByteRange):
        assert 0 <= part.start < part.start + part.length <= size
