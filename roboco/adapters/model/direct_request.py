"""direct_request: a request of the openai package that is sent again with other bodies, on the same aiohttp session.

    a response of the package ─► its request: address, headers, time-outs ─┐
                                                                           ├─► aiohttp ─► DirectResponse
    the session of the package's transport, with its connections ──────────┘

The layers between the openai package and aiohttp build each request and response twice, and pass each piece of a body
through five generators. They take a third of the processor time of a short call. Whatever they add to a request is in
the one that is kept. A request through a proxy, or with options that this module does not know, is not kept.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from aiohttp import ClientResponse, ClientSession, ClientTimeout
from httpx2 import AsyncClient, Request, Response

from roboco.adapters.model.response_limits import MAX_ERROR_BYTES

_LENGTH = "content-length"


class DirectResponse:
    """A response whose body was not read yet. It has the methods of an httpx response that readers of streams need."""

    def __init__(self, response: ClientResponse, request: Request) -> None:
        self.status_code = response.status
        self.request = request
        """The request, without its body."""
        self._response = response

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces of the body as they arrive, compressed if the server did that.

        Iteration raises aiohttp.ClientError if the connection breaks.
        """
        return self._response.content.iter_any()

    async def aclose(self) -> None:
        """Close the connection, or return it to the session if the body has ended."""
        self._response.release()
        await self._response.wait_for_close()

    async def to_httpx(self) -> Response:
        """Read the first MAX_ERROR_BYTES of the body, and return the response with them."""
        body = bytearray()
        try:
            async for piece in self.aiter_bytes():
                body += piece
                if len(body) >= MAX_ERROR_BYTES:
                    break
        finally:
            await self.aclose()
        headers = [(name, value) for name, value in self._response.raw_headers if name.lower() != b"content-encoding"]
        return Response(self.status_code, headers=headers, content=bytes(body[:MAX_ERROR_BYTES]), request=self.request)


class DirectRequest:
    """A request without its body. Use it in the event loop of its session."""

    def __init__(self, request: Request, session: ClientSession) -> None:
        limits = request.extensions["timeout"]
        headers = ((name.decode(), value.decode()) for name, value in request.headers.raw)
        self._session = session
        self._url = str(request.url)
        self._headers = [(name, value) for name, value in headers if name.lower() != _LENGTH]
        self._timeout = ClientTimeout(sock_connect=limits["connect"], sock_read=limits["read"], connect=limits["pool"])
        self._identity = request.method, self._url, sorted(self._headers), limits
        self.request = Request(request.method, request.url, headers=request.headers)
        """The same without its body, for errors."""

    @classmethod
    def of(cls, request: Request, http: AsyncClient) -> Self | None:
        """Return the request that this client has just sent, or None if it has to send each later one itself."""
        transport: Any = http._transport_for_url(request.url)
        session = getattr(transport, "client", None)
        known = request.extensions.keys() == {"timeout"} and not request.url.userinfo
        if not isinstance(session, ClientSession) or not known or getattr(transport, "proxy", "unknown") is not None:
            return None
        return cls(request, session)

    def equals(self, other: Self) -> bool:
        """Return True if both differ in nothing but their bodies."""
        return self._identity == other._identity and self._session is other._session

    async def send(self, body: bytes) -> DirectResponse:
        """Send the request with this body. Raise aiohttp.ClientError if no response arrives."""
        response = await self._session.request(
            self.request.method,
            self._url,
            headers=self._headers,
            data=body,
            allow_redirects=False,
            auto_decompress=False,
            compress=False,
            timeout=self._timeout,
        )
        return DirectResponse(response, self.request)
