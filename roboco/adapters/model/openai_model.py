"""A model client over the openai package, with streams that any thread can close at any moment."""

import asyncio
import logging
import os
import queue
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import openai

from roboco.adapters.model.allowlist import check_allowed, key_variable
from roboco.adapters.model.chat_client import ChatClient, ChatResponse
from roboco.adapters.model.coalescer import TextCoalescer
from roboco.adapters.model.errors import (
    RATE_LIMIT_CODE,
    model_error,
    redact_error,
    rejects_response_format,
    retry_after,
)
from roboco.adapters.model.json_tool_calls import (
    NO_WORDS,
    correction_request,
    fallback,
    json_request,
    parse_reply,
    plain_request,
    response_format,
    words_request,
)
from roboco.adapters.model.loop_thread import LoopTask, LoopThread
from roboco.adapters.model.reply_assembly import ReplyAssembly
from roboco.adapters.model.sse import iter_chunks
from roboco.adapters.model.tool_call_filter import SpokenWords
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.ports.model import ModelStream, OnText, Reply, Request

_log = logging.getLogger(__name__)
_NO_EXTRA_ARGUMENTS: Mapping[str, Any] = {}

MAX_ATTEMPTS = 2
"""Maximum number of attempts at a call that fails before its first token."""
RETRY_DELAY = 1.0
"""Seconds before the second attempt.

The delay doubles with each attempt. A Retry-After of the server is obeyed up to MAX_RETRY_DELAY. A rate limit is not
waited out here: the caller obeys it, for all processes."""
MAX_RETRY_DELAY = 5.0
IDLE_TIMEOUT_FACTOR = 1.1
"""Factor by which a silence may exceed the profile's `idle_timeout`.

The timer is set anew only when this slack is used up: with each chunk, it would take a twentieth of the processor time
of reading."""
MAX_REPROMPTS = 2
"""Maximum number of further requests to a model whose JSON cannot be parsed."""


class OpenAIModel:
    """Calls any server that implements the chat completions protocol.

    A profile's `base_url` and `api_key_env` override OPENAI_BASE_URL and OPENAI_API_KEY, if `allowed` contains them.
    """

    def __init__(
        self, allowed: tuple[str, ...] = (), max_attempts: int = MAX_ATTEMPTS, retry_delay: float = RETRY_DELAY
    ) -> None:
        self._allowed = allowed
        self._max_attempts = max_attempts
        self._retry_delay = retry_delay
        self._loop = LoopThread()
        self._clients: dict[tuple[int, str | None, str], ChatClient] = {}
        self._no_response_format: set[tuple[str | None, str]] = set()

    def stream(self, request: Request, on_text: OnText | None = None) -> ModelStream:
        """Start the call. Iterating over the stream raises ModelError if the call fails."""
        return _RunningStream(self, request, on_text)

    async def run(self, request: Request, on_text: OnText, out: "queue.SimpleQueue[_StreamItem]") -> None:
        """Make the call, pass its texts to `on_text`, and put the reply or the error into the queue, then None."""
        coalescer = TextCoalescer(on_text)
        try:
            result = await self._reply_or_error(request, coalescer)
            coalescer.flush()
            out.put(result)
        finally:
            coalescer.discard()
            out.put(None)

    async def _reply_or_error(self, request: Request, coalescer: TextCoalescer) -> "Reply | ModelError":
        """Return the reply or the error. Raises nothing."""
        try:
            return await self._request_reply(request, coalescer)
        except ModelError as error:
            return redact_error(error, request)
        except Exception as error:
            _log.exception("a model call failed by an unexpected error")
            return redact_error(ModelError("internal", f"model {request.profile.model!r}: {error!r}", False), request)

    async def _request_reply(self, request: Request, coalescer: TextCoalescer) -> Reply:
        if request.profile.tool_calls == "native":
            return (await self._retry_until_first_token(request, coalescer.add)).reply()
        if request.tools:
            return await self._request_json_reply(request, coalescer.add)
        return await self._in_words(request, coalescer.add)

    async def _request_json_reply(self, request: Request, on_text: OnText) -> Reply:
        """Request replies in JSON until one can be parsed, up to MAX_REPROMPTS more times, and return the last one.

        The text is held back until it is parsed. Each repetition quotes the mistake to the model.
        """
        first_request = current_request = json_request(request)
        replies: list[Reply] = []
        while True:
            assembly = await self._with_response_format(current_request, response_format(request))
            replies.append(assembly.reply())
            json_reply = await asyncio.to_thread(parse_reply, assembly.held_text, request, assembly.truncated)
            if not json_reply.mistake or len(replies) > MAX_REPROMPTS:
                break
            _log.warning(
                "model %r is asked again, since its reply cannot be parsed: %s",
                request.profile.model,
                json_reply.mistake,
            )
            current_request = correction_request(first_request, request, assembly.held_text, json_reply.mistake)
        if json_reply.mistake:
            json_reply = await asyncio.to_thread(fallback, assembly.held_text, request, json_reply, assembly.truncated)
        if json_reply.text:
            on_text(json_reply.text)
        return replace(
            _sum_usage(replies),
            finish_reason=json_reply.finish_reason,
            calls=json_reply.calls,
            mistake=json_reply.mistake,
        )

    async def _in_words(self, request: Request, say: OnText) -> Reply:
        """Have the model answer without tools. Tool calls that it writes all the same are removed from the text.

        If nothing else was in the answer, the model is asked again. Only an agent that has called tools writes calls:
        the text of any other agent is passed on as it is.
        """
        plain = asked = plain_request(request)
        if not any(message.get("tool_calls") for message in request.messages):
            return (await self._retry_until_first_token(plain, say)).reply()
        replies: list[Reply] = []
        while True:
            words = SpokenWords(say)
            replies.append((await self._retry_until_first_token(asked, words.say)).reply())
            words.finish()
            if not words.only_calls or len(replies) > MAX_REPROMPTS:
                break
            _log.warning("model %r is asked again: it wrote a tool call, and no words", request.profile.model)
            asked = words_request(plain)
        reply = _sum_usage(replies)
        return replace(reply, finish_reason="malformed", mistake=NO_WORDS) if words.only_calls else reply

    async def _with_response_format(self, request: Request, response_format: dict[str, Any]) -> ReplyAssembly:
        """Return the model's reply in this format.

        If the server rejects the format, this and all later requests to it omit the format.
        """
        server = (request.profile.base_url or os.environ.get("OPENAI_BASE_URL"), request.profile.model)
        if server not in self._no_response_format:
            try:
                return await self._retry_until_first_token(request, None, {"response_format": response_format})
            except ModelError as error:
                if not rejects_response_format(error):
                    raise
                _log.warning("later requests omit the response format: %s", error)
                self._no_response_format.add(server)
        return await self._retry_until_first_token(request, None)

    async def _retry_until_first_token(
        self, request: Request, on_text: OnText | None, extra: Mapping[str, Any] = _NO_EXTRA_ARGUMENTS
    ) -> ReplyAssembly:
        """Return the reply, retrying attempts that fail before `on_text` got a text; without it, at any time.

        Raise ModelError if the error is not retryable, is a rate limit, or occurs at the last attempt.
        """
        for attempt in range(1, self._max_attempts + 1):
            assembly = ReplyAssembly(request.profile.model)
            try:
                await self._stream_once(request, assembly, on_text or assembly.hold, extra)
                return assembly
            except (openai.OpenAIError, ModelError) as error:
                model_failure = (
                    redact_error(error, request) if isinstance(error, ModelError) else model_error(error, request)
                )
                again = (
                    model_failure.retryable
                    and model_failure.code != RATE_LIMIT_CODE
                    and (on_text is None or not assembly.has_output)
                )
                if not again or attempt == self._max_attempts:
                    raise model_failure from error
                _log.warning(
                    "model call failed before its first token, attempt %d of %d: %s",
                    attempt,
                    self._max_attempts,
                    model_failure,
                )
                await asyncio.sleep(_backoff(error, self._retry_delay * 2 ** (attempt - 1)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _stream_once(
        self, request: Request, assembly: ReplyAssembly, on_text: OnText, extra: Mapping[str, Any]
    ) -> None:
        profile = request.profile
        client = self._client(request)
        try:
            async with asyncio.timeout(profile.first_token_timeout) as limit:
                response = await client.post(_request_body(request, extra))
                async with _closing(response):
                    await _read_chunks(response, assembly, on_text, profile, limit)
        except TimeoutError as error:
            waited = profile.idle_timeout if assembly.has_output else profile.first_token_timeout
            problem = "fell silent for" if assembly.has_output else "sent no token within"
            raise ModelError("timeout", f"model {profile.model!r} {problem} {waited:g} s", True) from error
        except (openai.OpenAIError, ModelError):
            raise
        except Exception as error:
            raise ModelError(
                "broken_stream", f"the stream of model {profile.model!r} broke: {error!r}", True
            ) from error
        if not assembly.finished:
            raise ModelError(
                "broken_stream", f"model {profile.model!r} closed the stream in the middle of its reply", True
            )

    def _client(self, request: Request) -> ChatClient:
        check_allowed(request.profile, self._allowed)
        name = key_variable(request.profile)
        key = os.environ.get(name, "")
        base_url = request.profile.base_url or os.environ.get("OPENAI_BASE_URL") or None
        if not key and base_url is None:
            raise ModelError("no_key", f"no model key: {name} is not set on the agents worker", False)
        if not (key.isascii() and key.isprintable()):
            raise ModelError("no_key", f"the key in {name} holds characters that cannot be sent; set it anew", False)
        identity = (os.getpid(), base_url, key)
        if identity not in self._clients:
            self._clients[identity] = ChatClient(key or "none", base_url)
        return self._clients[identity]

    def start(self, request: Request, on_text: OnText, out: "queue.SimpleQueue[_StreamItem]") -> LoopTask:
        """Start the call on the loop thread."""
        return self._loop.submit(self.run(request, on_text, out))


@asynccontextmanager
async def _closing(response: ChatResponse) -> AsyncIterator[None]:
    """Close the response, and with it an unfinished stream's connection, when the block ends."""
    try:
        yield
    finally:
        await response.aclose()


async def _read_chunks(
    response: ChatResponse, assembly: ReplyAssembly, on_text: OnText, profile: ModelProfile, timeout: asyncio.Timeout
) -> None:
    """Read the reply to its end or to one of its limits. Each chunk postpones the timeout."""
    loop, due = asyncio.get_running_loop(), 0.0
    async with aclosing(iter_chunks(response)) as chunks:
        async for chunk in chunks:
            if text := assembly.add_chunk(chunk):
                on_text(text)
            if assembly.exceeded_limit:
                _log.warning("the reply of model %r is truncated at %s", profile.model, assembly.exceeded_limit)
                return
            if assembly.has_output and loop.time() + profile.idle_timeout > due:
                due = loop.time() + IDLE_TIMEOUT_FACTOR * profile.idle_timeout
                timeout.reschedule(due)


_StreamItem = str | Reply | ModelError | None


class _RunningStream:
    def __init__(self, model: OpenAIModel, request: Request, on_text: OnText | None) -> None:
        self._items: queue.SimpleQueue[_StreamItem] = queue.SimpleQueue()
        self._ended = False  # True once the reply or the error was read: they come after the end of the connection
        self._loop_task = model.start(request, on_text or self._items.put, self._items)

    def __iter__(self) -> Iterator[str | Reply]:
        while (item := self._items.get()) is not None:
            self._ended = isinstance(item, ModelError | Reply)
            if isinstance(item, ModelError):
                raise item
            yield item

    def close(self) -> None:
        """Close the connection to the model now; iteration then ends. Any thread may call this, also repeatedly."""
        if not self._ended:  # a cancellation wakes the loop up
            self._loop_task.cancel()
        self._items.put(None)

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, for at most `seconds`. Return True if it is closed."""
        return self._loop_task.ended.wait(seconds)


def _sum_usage(replies: list[Reply]) -> Reply:
    """Return the last reply, with the token counts and times of all replies."""
    return replace(
        replies[-1],
        tokens_in=sum(reply.tokens_in for reply in replies),
        tokens_out=sum(reply.tokens_out for reply in replies),
        first_token_ms=replies[0].first_token_ms,
        duration_ms=sum(reply.duration_ms for reply in replies),
        reprompts=len(replies) - 1,
    )


def _backoff(error: Exception, delay: float) -> float:
    return min(MAX_RETRY_DELAY, max(delay, retry_after(error) or 0.0))


def _request_body(request: Request, extra: Mapping[str, Any]) -> dict[str, Any]:
    profile = request.profile
    limits = [limit for limit in (profile.max_tokens, request.max_tokens) if limit is not None]
    optional = {
        "temperature": profile.temperature,
        "top_p": profile.top_p,
        "max_tokens": min(limits, default=None),
    }
    body: dict[str, Any] = {key: value for key, value in optional.items() if value is not None}
    if request.tools:
        body["tools"] = list(request.tools)
        body |= {"tool_choice": "required"} if request.tool_choice == "required" else {}
    required = {"model": profile.model, "stream": True, "stream_options": {"include_usage": True}}
    return body | required | {"messages": list(request.messages), **extra}
