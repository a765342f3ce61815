"""http_exchange: one HTTP request whose answer is bounded in time and size, whatever its server sends.

The time-outs of HTTP packages count from one byte to the next: a server that sends one now and then has no end.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class HttpAnswer:
    """The answer of a server."""

    status: int
    body: bytes
    retry_after: str = ""
    """Its Retry-After header, or ""."""


def exchange(
    method: str, url: str, headers: Mapping[str, str], seconds: float, max_bytes: int, body: bytes | None = None
) -> HttpAnswer:
    """Send the request and return the answer. Follow no redirection.

    Raise TimeoutError if the answer is not complete in time, and ValueError if it has more bytes or the address is
    wrong. Raise httpx2.HTTPError if the request fails. Call it in a thread without an event loop.
    """
    try:
        request = httpx2.Request(method, url, headers=headers, content=body)
        return asyncio.run(bounded_answer(request, seconds, max_bytes))
    except httpx2.InvalidURL as error:
        raise ValueError(f"{url!r}, or the address of a proxy, is no address: {error}") from error
    except ImportError as error:
        raise ValueError(f"the proxy for {url!r} cannot be used: {error}") from error


async def bounded_answer(
    request: httpx2.Request, seconds: float, max_bytes: int, *, cut: bool = False, **client_options: Any
) -> HttpAnswer:
    """Send the request, and return the answer, as `exchange` does. With `cut`, the beginning of its body is enough."""
    request.headers["Accept-Encoding"] = "identity"
    body = bytearray()
    answer: httpx2.Response | None = None
    try:
        async with asyncio.timeout(seconds), httpx2.AsyncClient(timeout=None, **client_options) as client:
            answer = await client.send(request, stream=True)
            async for piece in answer.aiter_raw():
                body += piece
                if cut and len(body) >= max_bytes:
                    break
                if len(body) > max_bytes:
                    raise ValueError(f"an answer of more than {max_bytes:,} bytes")
    except (httpx2.TransportError, TimeoutError):
        if answer is None or not cut:
            raise
    return HttpAnswer(answer.status_code, bytes(body[:max_bytes]), answer.headers.get("retry-after", ""))
