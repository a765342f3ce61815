"""Limits for responses of model servers: error bodies are truncated, and no body is decompressed."""

from collections.abc import AsyncIterator

from httpx2 import AsyncByteStream, Response

MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes that are read of the body of an error or a redirection."""


async def bound_response(response: Response) -> None:
    """Let the client read no more than it needs. An httpx hook for each response, before its body is read.

    The body is not decompressed: a few compressed bytes could expand to gigabytes. No server needs to compress a reply
    that it streams word by word.
    """
    response.headers.pop("content-encoding", None)
    if response.status_code >= 300 and isinstance(response.stream, AsyncByteStream):
        response.stream = _TruncatedBody(response.stream)


class _TruncatedBody(AsyncByteStream):
    """The first MAX_ERROR_BYTES bytes of a body."""

    def __init__(self, body: AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ERROR_BYTES
        async for piece in self._body:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool if the body has ended."""
        await self._body.aclose()
