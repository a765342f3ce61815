"""chat_client: post chat completions to one model server with one key.

    the first two requests ─► openai package ─► equal heads? ─► the head is kept
    later requests ─► the kept head and a new body ─► the same HTTP client ─► the package's errors

For each request the package builds its URL, headers and options anew: a third of the processor time of a short call,
on the one thread that carries all streams. All of it depends only on server and key. If the package ever sends a header
that differs between two requests, no head is kept, and it sends them all.
"""

import json
import ssl
from dataclasses import dataclass
from typing import Any, Self

import openai
from httpx2 import URL, Headers, RequestError, Response, TimeoutException
from httpx2 import Request as HttpRequest
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from roboco.adapters.model.response_limits import bound_response

PATH = "/chat/completions"


@dataclass(frozen=True)
class _Head:
    """A request without its body."""

    url: URL
    headers: Headers
    extensions: dict[str, Any]

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        headers = Headers(request.headers)
        del headers["content-length"]
        return cls(request.url, headers, dict(request.extensions))

    @property
    def fields(self) -> tuple[URL, list[tuple[bytes, bytes]], dict[str, Any]]:
        """All that two heads are compared by."""
        return self.url, sorted(self.headers.raw), self.extensions


class ChatClient:
    """The client of one server and key. Use it in one event loop."""

    def __init__(self, key: str, base_url: str | None) -> None:
        self._http = DefaultAioHttpClient(event_hooks={"response": [bound_response]})
        timeout = openai.Timeout(600, connect=10)
        self._openai: Any = AsyncOpenAI(
            api_key=key, base_url=base_url, max_retries=0, timeout=timeout, http_client=self._http
        )
        self._last: _Head | None = None
        self._head: _Head | None = None

    async def close(self) -> None:
        """Close all connections."""
        await self._openai.close()

    async def post(self, body: dict[str, Any]) -> Response:
        """Return the response, whose body was not read yet. Raise openai.OpenAIError if there is none, or an error."""
        if self._head is not None:
            return await self._post_directly(self._head, body)
        # Not `completions.create`: it walks its typed arguments by reflection, which takes 16 ms for 60 messages.
        response: Response = await self._openai.post(
            PATH,
            cast_to=Response,
            body=body,
            options={"headers": {"Accept-Encoding": "identity"}},
            stream=True,
            stream_cls=AsyncStream[Any],
        )
        self._note_head(response)
        return response

    def _note_head(self, response: Response) -> None:
        """Keep the head of the response's request if it is that of the request before. A redirected one has another."""
        if not response.history:
            head = _Head.of(response.request)
            if self._last is not None and head.fields == self._last.fields:
                self._head = head
            self._last = head

    async def _post_directly(self, head: _Head, body: dict[str, Any]) -> Response:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        request = HttpRequest("POST", head.url, headers=head.headers, content=content, extensions=head.extensions)
        try:
            response = await self._http.send(request, stream=True)
        except TimeoutException as error:
            raise openai.APITimeoutError(request=request) from error
        except (RequestError, ssl.SSLError) as error:
            raise openai.APIConnectionError(request=request) from error
        if response.is_success:
            return response
        try:
            await response.aread()
        finally:
            await response.aclose()
        raise self._openai._make_status_error_from_response(response)
