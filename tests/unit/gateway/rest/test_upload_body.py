"""The body of a request as a file that a thread reads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from roboco.gateway.problem import Problem
from roboco.gateway.rest import upload_body
from roboco.gateway.rest.upload_body import UploadBody


async def pieces_of(pieces: list[bytes], pulled: list[int] | None = None) -> AsyncIterator[bytes]:
    """Yield the pieces, and note how many were pulled."""
    for number, piece in enumerate(pieces):
        if pulled is not None:
            pulled.append(number)
        yield piece


def in_thread(work: Callable[[UploadBody], Any], pieces: AsyncIterator[bytes], **options: Any) -> Any:
    """Return the result of work with a body in a thread, while an event loop feeds it."""

    async def main() -> Any:
        body = UploadBody(pieces, options.pop("max_bytes", 1000), **options)
        return await asyncio.to_thread(work, body)

    return asyncio.run(main())


@given(st.lists(st.binary(max_size=9), max_size=9), st.lists(st.integers(1, 20), max_size=12))
def test_reads_return_all_bytes_in_full_pieces(pieces: list[bytes], sizes: list[int]) -> None:
    def read(body: UploadBody) -> list[bytes]:
        return [*(body.read(size) for size in sizes), body.read(), body.read(4)]

    whole = b"".join(pieces)
    found = in_thread(read, pieces_of(pieces))
    assert b"".join(found) == whole
    left = len(whole)
    for size, data in zip(sizes, found, strict=False):
        assert len(data) == min(size, left)
        left -= len(data)


def test_nothing_is_pulled_before_it_is_asked_for() -> None:
    pulled: list[int] = []
    in_thread(lambda body: body.read(2), pieces_of([b"ab", b"cd", b"ef"], pulled))
    assert pulled == [0]


def test_a_body_that_is_too_long_fails_at_the_first_byte_too_many() -> None:
    pulled: list[int] = []
    with pytest.raises(Problem) as found:
        in_thread(lambda body: body.read(), pieces_of([b"abc"] * 9, pulled), max_bytes=5)
    assert (found.value.status, pulled) == (413, [0, 1])


async def disconnecting() -> AsyncIterator[bytes]:
    yield b"begin"
    raise ClientDisconnect


def test_a_client_that_disconnects_fails_the_read() -> None:
    with pytest.raises(Problem) as found:
        in_thread(lambda body: body.read(), disconnecting())
    assert found.value.status == 400


async def silent() -> AsyncIterator[bytes]:
    yield b"begin"
    await asyncio.sleep(3600)


def test_a_silent_client_fails_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_body, "MAX_SILENCE", 0.05)
    with pytest.raises(Problem) as found:
        in_thread(lambda body: body.read(), silent())
    assert found.value.status == 408


def test_a_slow_client_fails_the_read() -> None:
    times = iter([0.0, *(20.0 * number for number in range(1, 9))])
    with pytest.raises(Problem) as found:
        in_thread(lambda body: body.read(), pieces_of([b"a"] * 9), clock=lambda: next(times))
    assert found.value.status == 408
