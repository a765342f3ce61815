"""A model client over the openai package, with streams that any thread can close at any moment."""

import asyncio
import logging
import os
import queue
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import openai
from httpx2 import Response
from openai import AsyncOpenAI, DefaultAioHttpClient

from roboco.adapters.model.allowlist import check_allowed, key_name
from roboco.adapters.model.bounded import bound_response
from roboco.adapters.model.coalescer import Paced
from roboco.adapters.model.errors import RATE_LIMIT, masked, refuses_format, retry_after, told
from roboco.adapters.model.json_tool_calls import (
    NO_WORDS,
    asked_again,
    asked_for_words,
    asked_in_json,
    asked_plainly,
    fallback,
    read_answer,
    response_format,
)
from roboco.adapters.model.loop_thread import LoopThread, Running
from roboco.adapters.model.reply_assembly import Assembly
from roboco.adapters.model.sse import iter_chunks
from roboco.adapters.model.tool_call_filter import SpokenWords
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.ports import ModelStream, Reply, Request, Say

_log = logging.getLogger(__name__)
_NOTHING: Mapping[str, Any] = {}

TRIES = 2
"""Maximum number of attempts at a call that fails before its first token."""
PAUSE = 1.0
"""Seconds before the second attempt.

The delay doubles with each attempt. A Retry-After of the server is obeyed up to MAX_RETRY_DELAY. A rate limit is not
waited out here: the caller obeys it, for all processes."""
LONGEST = 5.0
SLACK = 1.1
"""Factor by which a silence may exceed the profile's `idle_timeout`.

The timer is set anew only when this slack is used up: with each chunk, it would take a twentieth of the processor time
of reading."""
REPROMPTS = 2
"""Maximum number of further requests to a model whose JSON cannot be parsed."""


class OpenAIModel:
    """Calls any server that implements the chat completions protocol.

    A profile's `base_url` and `api_key_env` override OPENAI_BASE_URL and OPENAI_API_KEY, if `allowed` contains them.
    """

    def __init__(self, allowed: tuple[str, ...] = (), tries: int = TRIES, pause: float = PAUSE) -> None:
        self._allowed = allowed
        self._tries = tries
        self._pause = pause
        self._loop = LoopThread()
        self._clients: dict[tuple[int, str | None, str], AsyncOpenAI] = {}
        self._formless: set[tuple[str | None, str]] = set()

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Start the call. Iterating over the stream raises ModelError if the call fails."""
        return _Stream(self, request, say)

    async def run(self, request: Request, say: Say, out: "queue.SimpleQueue[_Item]") -> None:
        """Make the call, pass its texts to `on_text`, and put the reply or the error into the queue, then None."""
        paced = Paced(say)
        try:
            ended = await self._ended(request, paced)
            paced.flush()
            out.put(ended)
        finally:
            paced.drop()
            out.put(None)

    async def _ended(self, request: Request, paced: Paced) -> "Reply | ModelError":
        """Return the reply or the error. Raises nothing."""
        try:
            return await self._answered(request, paced)
        except ModelError as error:
            return masked(error, request)
        except Exception as error:
            _log.exception("a model call failed by an unexpected error")
            return masked(ModelError("internal", f"model {request.profile.model!r}: {error!r}", False), request)

    async def _answered(self, request: Request, paced: Paced) -> Reply:
        if request.profile.tool_calls == "native":
            return (await self._first_try_that_speaks(request, paced.say)).reply()
        if request.tools:
            return await self._in_json(request, paced.say)
        return await self._in_words(request, paced.say)

    async def _in_json(self, request: Request, say: Say) -> Reply:
        """Request replies in JSON until one can be parsed, up to MAX_REPROMPTS more times, and return the last one.

        The text is held back until it is parsed. Each repetition quotes the mistake to the model.
        """
        first = asked = asked_in_json(request)
        replies: list[Reply] = []
        while True:
            assembly = await self._formed(asked, response_format(request))
            replies.append(assembly.reply())
            answer = await asyncio.to_thread(read_answer, assembly.held, request, assembly.cut_off)
            if not answer.mistake or len(replies) > REPROMPTS:
                break
            _log.warning(
                "model %r is asked again, since its reply cannot be parsed: %s", request.profile.model, answer.mistake
            )
            asked = asked_again(first, request, assembly.held, answer.mistake)
        if answer.mistake:
            answer = fallback(assembly.held, request, answer, assembly.cut_off)
        if answer.text:
            say(answer.text)
        return replace(_summed(replies), finish_reason=answer.finish_reason, calls=answer.calls, mistake=answer.mistake)

    async def _in_words(self, request: Request, say: Say) -> Reply:
        """Have the model answer without tools. Tool calls that it writes all the same are removed from the text.

        If nothing else was in the answer, the model is asked again. Only an agent that has called tools writes calls:
        the text of any other agent is passed on as it is.
        """
        plain = asked = asked_plainly(request)
        if not any(message.get("tool_calls") for message in request.messages):
            return (await self._first_try_that_speaks(plain, say)).reply()
        replies: list[Reply] = []
        while True:
            words = SpokenWords(say)
            replies.append((await self._first_try_that_speaks(asked, words.say)).reply())
            words.finish()
            if not words.only_calls or len(replies) > REPROMPTS:
                break
            _log.warning("model %r is asked again: it wrote a tool call, and no words", request.profile.model)
            asked = asked_for_words(plain)
        reply = _summed(replies)
        return replace(reply, finish_reason="malformed", mistake=NO_WORDS) if words.only_calls else reply

    async def _formed(self, asked: Request, form: dict[str, Any]) -> Assembly:
        """Return the model's reply in this format.

        If the server rejects the format, this and all later requests to it omit the format.
        """
        known = (asked.profile.base_url or os.environ.get("OPENAI_BASE_URL"), asked.profile.model)
        if known not in self._formless:
            try:
                return await self._first_try_that_speaks(asked, None, {"response_format": form})
            except ModelError as error:
                if not refuses_format(error):
                    raise
                _log.warning("later requests omit the response format: %s", error)
                self._formless.add(known)
        return await self._first_try_that_speaks(asked, None)

    async def _first_try_that_speaks(
        self, request: Request, say: Say | None, extra: Mapping[str, Any] = _NOTHING
    ) -> Assembly:
        """Return the reply, retrying attempts that fail before `on_text` got a text; without it, at any time.

        Raise ModelError if the error is not retryable, is a rate limit, or occurs at the last attempt.
        """
        for attempt in range(1, self._tries + 1):
            assembly = Assembly(request.profile.model)
            try:
                await self._stream(request, assembly, say or assembly.hold, extra)
                return assembly
            except (openai.OpenAIError, ModelError) as error:
                failed = masked(error, request) if isinstance(error, ModelError) else told(error, request)
                again = failed.retryable and failed.code != RATE_LIMIT and (say is None or not assembly.begun)
                if not again or attempt == self._tries:
                    raise failed from error
                _log.warning(
                    "model call failed before its first token, attempt %d of %d: %s", attempt, self._tries, failed
                )
                await asyncio.sleep(_pause(error, self._pause * 2 ** (attempt - 1)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _stream(self, request: Request, assembly: Assembly, say: Say, extra: Mapping[str, Any]) -> None:
        profile = request.profile
        completions = self._client(request).chat.completions.with_streaming_response
        try:
            async with asyncio.timeout(profile.first_token_timeout) as limit:
                async with completions.create(**_arguments(request, extra)) as response:
                    await _read(response.http_response, assembly, say, profile, limit)
        except TimeoutError as error:
            waited = profile.idle_timeout if assembly.begun else profile.first_token_timeout
            what = "fell silent for" if assembly.begun else "sent no token within"
            raise ModelError("timeout", f"model {profile.model!r} {what} {waited:g} s", True) from error
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

    def _client(self, request: Request) -> AsyncOpenAI:
        check_allowed(request.profile, self._allowed)
        name = key_name(request.profile)
        key = os.environ.get(name, "")
        base_url = request.profile.base_url or os.environ.get("OPENAI_BASE_URL") or None
        if not key and base_url is None:
            raise ModelError("no_key", f"no model key: {name} is not set on the agents worker", False)
        if not (key.isascii() and key.isprintable()):
            raise ModelError("no_key", f"the key in {name} holds characters that cannot be sent; set it anew", False)
        identity = (os.getpid(), base_url, key)
        if identity not in self._clients:
            self._clients[identity] = AsyncOpenAI(
                api_key=key or "none",
                base_url=base_url,
                max_retries=0,
                timeout=openai.Timeout(600, connect=10),
                http_client=DefaultAioHttpClient(event_hooks={"response": [bound_response]}),
            )
        return self._clients[identity]

    def start(self, request: Request, say: Say, out: "queue.SimpleQueue[_Item]") -> Running:
        """Start the call on the loop thread."""
        return self._loop.submit(self.run(request, say, out))


async def _read(
    response: Response, assembly: Assembly, say: Say, profile: ModelProfile, silence: asyncio.Timeout
) -> None:
    """Read the reply to its end or to one of its limits. Each chunk postpones the timeout."""
    loop, due = asyncio.get_running_loop(), 0.0
    async with aclosing(iter_chunks(response)) as chunks:
        async for chunk in chunks:
            if text := assembly.take(chunk):
                say(text)
            if assembly.limit:
                _log.warning("the reply of model %r is truncated at %s", profile.model, assembly.limit)
                return
            if assembly.begun and loop.time() + profile.idle_timeout > due:
                due = loop.time() + SLACK * profile.idle_timeout
                silence.reschedule(due)


_Item = str | Reply | ModelError | None


class _Stream:
    def __init__(self, model: OpenAIModel, request: Request, say: Say | None) -> None:
        self._out: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._running = model.start(request, say or self._out.put, self._out)

    def __iter__(self) -> Iterator[str | Reply]:
        while (item := self._out.get()) is not None:
            if isinstance(item, ModelError):
                raise item
            yield item

    def close(self) -> None:
        """Close the connection to the model now; iteration then ends. Any thread may call this, also repeatedly."""
        self._running.cancel()
        self._out.put(None)

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, for at most `seconds`. Return True if it is closed."""
        return self._running.ended.wait(seconds)


def _summed(replies: list[Reply]) -> Reply:
    """Return the last reply, with the token counts and times of all replies."""
    return replace(
        replies[-1],
        tokens_in=sum(reply.tokens_in for reply in replies),
        tokens_out=sum(reply.tokens_out for reply in replies),
        first_token_ms=replies[0].first_token_ms,
        duration_ms=sum(reply.duration_ms for reply in replies),
        reprompts=len(replies) - 1,
    )


def _pause(error: Exception, pause: float) -> float:
    return min(LONGEST, max(pause, retry_after(error) or 0.0))


def _arguments(request: Request, extra: Mapping[str, Any]) -> dict[str, Any]:
    profile = request.profile
    limits = [limit for limit in (profile.max_tokens, request.max_tokens) if limit is not None]
    optional = {
        "temperature": profile.temperature,
        "top_p": profile.top_p,
        "max_tokens": min(limits, default=None),
    }
    arguments: dict[str, Any] = {key: value for key, value in optional.items() if value is not None}
    if request.tools:
        arguments["tools"] = list(request.tools)
        arguments |= {"tool_choice": "required"} if request.tool_choice == "required" else {}
    return arguments | {
        "model": profile.model,
        # The package walks typed arguments by reflection, on the one thread that carries all streams: 19 ms
        # instead of 3 for 60 messages. The extra body goes out as it is.
        "messages": [],
        "extra_body": {"messages": list(request.messages), **extra},
        "stream": True,
        "extra_headers": {"Accept-Encoding": "identity"},
        "stream_options": {"include_usage": True},
    }
