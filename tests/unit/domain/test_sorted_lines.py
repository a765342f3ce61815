"""Lines are read from any key on, in small pieces."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain import sorted_lines
from roboco.domain.sorted_lines import lines_from


def number_of(line: bytes) -> int:
    """Return the number at the start of the line."""
    return int(line.partition(b" ")[0])


def part(data: bytes, start: int, length: int) -> bytes:
    """Return a part of the data."""
    return data[start : start + length]


def file_of(sizes: list[int]) -> list[bytes]:
    """Return lines of about these sizes, with even numbers."""
    return [b"%d %s" % (2 * number, b"x" * size) for number, size in enumerate(sizes)]


@given(
    sizes=st.lists(st.sampled_from([0, 1, 5, 40, 300]), max_size=40),
    first=st.integers(-1, 82),
    piece=st.sampled_from([1, 7, 64, 4096]),
    probe=st.sampled_from([1, 10, 100]),
    torn=st.sampled_from([b"", b"9"]),
)
def test_the_lines_from_a_key_on_are_found(sizes: list[int], first: int, piece: int, probe: int, torn: bytes) -> None:
    lines = file_of(sizes)
    data = b"".join(line + b"\n" for line in lines) + torn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_lines, "PIECE_BYTES", piece)
        patch.setattr(sorted_lines, "PROBE_BYTES", probe)
        found = list(lines_from(partial(part, data), len(data), number_of, first))
    assert found == [line for line in lines if number_of(line) >= first]


def test_a_reader_in_the_middle_fetches_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 10_000
    monkeypatch.setattr(sorted_lines, "PIECE_BYTES", 1000)
    monkeypatch.setattr(sorted_lines, "PROBE_BYTES", 200)
    data = b"".join(line + b"\n" for line in file_of([40] * count))
    lengths: list[int] = []

    def counting(read: Callable[[int, int], bytes], start: int, length: int) -> bytes:
        lengths.append(length)
        return read(start, length)

    read = partial(counting, partial(part, data))
    assert number_of(next(lines_from(read, len(data), number_of, count))) == count
    assert sum(lengths) <= 200 * len(data).bit_length() + 2000
