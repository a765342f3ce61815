"""chat_client: post chat completions to one model server with one key.

    the first two requests ─► openai package ─► equal but for the body? ─► the request is kept
    later requests ─► the kept request with a new body ─► the same connections ─► the package's errors

For each request the package builds its URL, headers and options anew: a third of the processor time of a short call,
on the one thread that carries all streams. All of it depends only on server and key. If the package ever sends a header
that differs between two requests, no request is kept, and it sends them all. It also follows redirections.
"""

import json
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any, Protocol

import openai
from aiohttp import ClientError, ServerTimeoutError
from httpx2 import Request as HttpRequest
from httpx2 import Response
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from roboco.adapters.model.direct_request import DirectRequest
from roboco.adapters.model.response_limits import bound_response

PATH = "/chat/completions"
_log = logging.getLogger("httpx2")
"""The logger of requests through the package: one level applies to all requests."""


class ChatResponse(Protocol):
    """A response whose body was not read yet."""

    @property
    def request(self) -> HttpRequest:
        """Return the request, for errors."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces of the body. Iteration raises httpx2.HTTPError or aiohttp.ClientError if it breaks."""

    async def aclose(self) -> None:
        """Close the connection, or keep it for later requests if the body has ended."""


class ChatClient:
    """The client of one server and key. Use it in one event loop."""

    def __init__(self, key: str, base_url: str | None) -> None:
        self._http = DefaultAioHttpClient(event_hooks={"response": [bound_response]})
        timeout = openai.Timeout(600, connect=10)
        self._openai: Any = AsyncOpenAI(
            api_key=key, base_url=base_url, max_retries=0, timeout=timeout, http_client=self._http
        )
        self._last: DirectRequest | None = None
        self._kept: DirectRequest | None = None

    async def close(self) -> None:
        """Close all connections."""
        await self._openai.close()

    async def post(self, body: dict[str, Any]) -> ChatResponse:
        """Return the response, whose body was not read yet. Raise openai.OpenAIError if there is none, or an error."""
        if self._kept is not None and (response := await self._post_directly(self._kept, body)) is not None:
            return response
        return await self._post_by_package(body)

    async def _post_by_package(self, body: dict[str, Any]) -> Response:
        # Not `completions.create`: it walks its typed arguments by reflection, which takes 16 ms for 60 messages.
        response: Response = await self._openai.post(
            PATH,
            cast_to=Response,
            body=body,
            options={"headers": {"Accept-Encoding": "identity"}},
            stream=True,
            stream_cls=AsyncStream[Any],
        )
        self._note_request(response)
        return response

    def _note_request(self, response: Response) -> None:
        """Keep the response's request if it is equal to the one before. A redirected one has another address."""
        if not response.history and self._kept is None:
            request = DirectRequest.of(response.request, self._http)
            if request is not None and self._last is not None and request.equals(self._last):
                self._kept = request
            self._last = request

    async def _post_directly(self, kept: DirectRequest, body: dict[str, Any]) -> ChatResponse | None:
        """Return the response, or None if the server redirects the request to another address."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        request = kept.request
        try:
            response = await kept.send(content)
        except ServerTimeoutError as error:
            raise openai.APITimeoutError(request=request) from error
        except (ClientError, ssl.SSLError) as error:
            raise openai.APIConnectionError(request=request) from error
        _log.info("HTTP Request: %s %s %d", request.method, request.url, response.status_code)
        if 200 <= response.status_code < 300:
            return response
        if 300 <= response.status_code < 400:
            self._last = self._kept = None  # later requests are sent by the package alone, while they are redirected
            await response.aclose()
            return None
        try:
            failed = await response.to_httpx()
        except ClientError as error:
            raise openai.APIConnectionError(request=request) from error
        raise self._openai._make_status_error_from_response(failed)
