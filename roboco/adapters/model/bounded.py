"""Bounded: responses of model servers, of which no error body is read whole and none is unpacked."""

from collections.abc import AsyncIterator

from httpx2 import AsyncByteStream, Response

MOST_ERROR = 64 * 1024
"""Bytes that are read of the body of an error or a redirection."""


async def bound_response(response: Response) -> None:
    """Let the client read no more than it needs; a hook for each response, before its body is read.

    A body is taken as it was sent: a few packed bytes would unpack to gigabytes at once, and no server needs to pack an
    answer that comes word by word.
    """
    response.headers.pop("content-encoding", None)
    if response.status_code >= 300 and isinstance(response.stream, AsyncByteStream):
        response.stream = _Beginning(response.stream)


class _Beginning(AsyncByteStream):
    """The first MOST_ERROR bytes of a body."""

    def __init__(self, body: AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ERROR
        async for piece in self._body:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def aclose(self) -> None:
        """Close the connection, or give it back if the body has ended."""
        await self._body.aclose()
