"""A model client, with streams that any thread can close at any moment.

    Request ─► a thread's ModelStream ◄── queue ◄── the loop: exchange ─► retry? ─► ask again? ─► Reply or ModelError
                                                      │ Wire
                                                      ▼
                                  chat completions, or the native protocol of a provider

A request may be sent again for one of three reasons, each with a bound: the server could not be reached or its reply
broke off before the first text (MAX_ATTEMPTS), the reply cannot be used (MAX_REPROMPTS), or the server has refused a
parameter (the wire learns). Every request that the provider has received counts in the usage of the call.
"""

import asyncio
import logging
import os
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.prompt.chat import attached_tokens, data_of
from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.tokens import estimate_tokens
from roboco.domain.url import strip_credentials, without_query
from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError, TransientError, UsageError
from roboco.model import reply_assembly
from roboco.model.a2a_wire import A2aWire
from roboco.model.allowlist import (
    DEFAULT_BASE_URL,
    LOCAL_KEY,
    base_url_of,
    check_allowed,
    key_variable,
    model_key,
    needs_key,
)
from roboco.model.chat_wire import ChatWire
from roboco.model.coalescer import TextCoalescer
from roboco.model.errors import (
    MALFORMED_CALL,
    RATE_LIMIT,
    ServerFailure,
    container_hint,
    model_error,
    redact_error,
    redact_secrets,
)
from roboco.model.json_tool_calls import (
    NO_WORDS,
    correction_request,
    fallback,
    json_request,
    parse_reply,
    plain_request,
    response_format,
    words_request,
)
from roboco.model.learned import Learner, Lessons
from roboco.model.loop_thread import LoopTask, LoopThread
from roboco.model.native.wire import NativeWire
from roboco.model.provider_state import for_server, marked, server_identity
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.sse import UNREADABLE
from roboco.model.tool_call_filter import SpokenWords
from roboco.model.typed_output import answers_by_tool, with_answer_tool, with_format, without_answer_call
from roboco.model.wire import Output, Wire
from roboco.ports.model import CallProgress, Listener, ModelStream, OnText, Reply, Request
from roboco.process.credentials import Credentials

_log = logging.getLogger(__name__)

MAX_ATTEMPTS = 2
"""Maximum number of attempts at a request that fails before its first text."""
RETRY_DELAY = 1.0
"""Seconds before the second attempt.

The delay doubles with each attempt. A Retry-After of the server is obeyed up to MAX_RETRY_DELAY. A rate limit is not
waited out here: the caller obeys it, for all processes."""
MAX_RETRY_DELAY = 5.0
IDLE_TIMEOUT_FACTOR = 1.1
"""Factor by which a silence may exceed the profile's `idle_timeout`.

The timer is set anew only when this slack is used up: with each chunk, it would take a twentieth of the processor time
of reading."""
USAGE_TIMEOUT = 2.0
"""Seconds to wait for the usage and the end of the stream after a reply is whole."""
END_TIMEOUT = 0.2
"""Seconds to wait for the end of the stream after the reply is whole and its usage is known."""
MAX_REPROMPTS = 2
"""Maximum number of further requests to a model whose reply cannot be parsed."""
MAX_EMPTY_REPROMPTS = 1
"""Maximum number of further requests to a model that says nothing."""

_CHAT_PROVIDERS = frozenset({"openai", "mistral", "groq"})
"""Providers whose own protocol is chat completions."""


class OpenAIModel:
    """Calls model servers: those of chat completions, and those of providers with their own protocol.

    A process that forks makes one in each child, since connections must not be shared.
    A profile's `base_url` and `api_key_env` override OPENAI_BASE_URL and OPENAI_API_KEY, if `allowed` contains them.
    """

    def __init__(
        self,
        allowed: tuple[str, ...] = (),
        credentials: Credentials | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        retry_delay: float = RETRY_DELAY,
    ) -> None:
        self.allowed = allowed
        self._credentials = credentials or Credentials()
        self.max_attempts = max_attempts
        self.retry_delay = retry_delay
        self._loop = LoopThread()
        self._learner = Learner()
        self._chat, self._native = ChatWire(self._learner), NativeWire(self._learner)
        self._remote = A2aWire()

    def stream(self, request: Request, listener: Listener | None = None) -> ModelStream:
        """Start the call. Iterating over the stream raises ModelError if the call fails."""
        return _RunningStream(self, request, listener)

    def start(self, call: "_ModelCall", out: "queue.SimpleQueue[_StreamItem]") -> LoopTask:
        """Start the call on the loop thread."""
        return self._loop.submit(call.run(out))

    def wire_of(self, request: Request) -> Wire:
        """Return the wire to the request's server. Raise ModelError if the profile may not be used."""
        profile = request.profile
        check_allowed(profile, self.allowed)
        name, key = key_variable(profile), request.credential or model_key(profile)
        if not key and needs_key(profile):
            raise ModelError("no_key", f"no model key: {name} is not set on the agents worker", False)
        for variable in filter(None, (name, *profile.headers.values())):
            value = os.environ.get(variable, "")
            if not (value.isascii() and value.isprintable()):
                message = f"the value of {variable} is not valid in an HTTP header; set it again"
                raise ModelError("no_key", message, False)
        if profile.provider == REMOTE_AGENT:
            return self._remote
        return self._chat if profile.provider in _CHAT_PROVIDERS else self._native

    async def with_credential(self, request: Request) -> Request:
        """Return the request with its key, if that is a credential. The one that it has was refused.

        Raise ModelError if there is no valid one.
        """
        if request.profile.api_key is None:
            return request
        name = request.profile.api_key.credential
        try:
            key = await self._credentials.get_async(request.tenant, name, request.credential)
        except (UsageError, TransientError) as error:
            raise ModelError("no_key", str(error), isinstance(error, TransientError)) from None
        if not (key.isascii() and key.isprintable()):
            message = f"credential {name!r} of tenant {request.tenant!r} is not valid in an HTTP header"
            raise ModelError("no_key", message, False)
        return replace(request, credential=key)

    def learned(self, profile: ModelProfile) -> Lessons:
        """Return what this process has learned of the profile's server and model from refusals."""
        return self._learner.lessons_of(profile)

    def shut(self, seconds: float) -> None:
        """Close all connections, for at most `seconds`. Any thread may call this."""
        self._loop.submit(self.close()).ended.wait(seconds)

    async def close(self) -> None:
        """Close all connections. Call it in the loop."""
        await self._chat.close()
        await self._remote.close()
        await self._native.close()


class _ModelCall:
    """One call, with all its requests. It is made in any thread, and runs in the loop."""

    def __init__(self, model: OpenAIModel, request: Request, listener: Listener) -> None:
        self._model = model
        self._request = request
        self._listener = listener
        self._texts: TextCoalescer
        self._thoughts: TextCoalescer
        self._spent = ModelUsage()
        self._current: tuple[Request, ReplyAssembly] | None = None  # the request in flight
        self._server = server_identity(request.profile.provider, base_url_of(request.profile) or DEFAULT_BASE_URL)
        self._attempt = 1
        self._heard_at = time.time()
        self._published = False
        self._held: list[str] | None = None  # texts that are held back until the reply is whole

    @property
    def usage(self) -> ModelUsage:
        """The usage until now, with an estimate for the request in flight. Any thread may read it."""
        if (current := self._current) is None:
            return self._spent
        request, assembly = current
        return self._spent.plus(replace(assembly.spent(_estimated_prompt(request)), estimated=True))

    @property
    def progress(self) -> CallProgress:
        """How far the call has come. Any thread may read it."""
        profile, current = self._request.profile, self._current
        speaks = current is not None and current[1].has_output
        limit = profile.idle_timeout if speaks else profile.first_token_timeout
        reasoning = 0 if current is None else current[1].reasoning_tokens
        server = without_query(strip_credentials(base_url_of(profile) or DEFAULT_BASE_URL))
        return CallProgress(self._attempt, self._model.max_attempts, self._heard_at, limit, server, reasoning)

    async def run(self, out: "queue.SimpleQueue[_StreamItem]") -> None:
        """Make the call, pass its texts on, and put the reply or the error into the queue, then None."""
        self._texts = TextCoalescer(self._listener.on_text)
        self._thoughts = TextCoalescer(self._listener.on_reasoning or _ignore)
        try:
            result = await self._reply_or_error()
            self._thoughts.flush()
            self._texts.flush()
            out.put(result)
        finally:
            self._thoughts.discard()
            self._texts.discard()
            out.put(None)

    def _publish(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        self._published = True
        self._texts.add(text)

    async def _reply_or_error(self) -> "Reply | ModelError":
        """Return the reply or the error, with the usage of all requests. Raises nothing."""
        request = self._request
        try:
            check_allowed(request.profile, self._model.allowed)
            self._request = request = await self._model.with_credential(request)
            self._model.wire_of(request)
            reply = await self._usable_reply(for_server(request, self._server))
            return replace(marked(reply, self._server, request), usage=self._spent)
        except ModelError as error:
            failure = error
        except Exception as error:
            _log.exception("a model call failed by an unexpected error")
            failure = ModelError("internal", f"model {request.profile.model!r}: {error!r}", False)
        failure = redact_error(failure, self._request)
        failure.tokens_in, failure.tokens_out = self._spent.tokens_in, self._spent.tokens_out
        return failure

    async def _usable_reply(self, request: Request) -> Reply:
        if request.output is None:
            return await self._untyped_reply(request)
        if not answers_by_tool(request, self._model.learned(request.profile).omitted):
            asked = with_format(request)
            return await self._native_reply(asked if asked.profile.tool_calls == "native" else plain_request(asked))
        self._held = []
        reply = await self._untyped_reply(with_answer_tool(request))
        reply, text = without_answer_call(request, reply, "".join(self._held))
        self._held = None
        if text:
            self._publish(text)
        return reply

    async def _untyped_reply(self, request: Request) -> Reply:
        if request.profile.tool_calls == "native" and model_key(request.profile) != LOCAL_KEY:
            return await self._native_reply(request)
        if request.tools:
            return await self._json_reply(request)
        return await self._reply_in_words(request)

    async def _native_reply(self, request: Request) -> Reply:
        """Return a reply. Ask again if it is empty, or if the provider withholds it for a malformed tool call."""
        asked, empty, reprompts = request, 0, 0
        while True:
            if self._held:
                self._held.clear()
            result = await self._reply_or_mistake(asked)
            if isinstance(result, str):
                if reprompts >= MAX_REPROMPTS:
                    return Reply(request.profile.model, "malformed", reprompts=reprompts, mistake=result)
                asked = _native_correction(request, result)
            else:
                reply = replace(result.reply(), reprompts=reprompts)
                if not result.is_empty or reply.finish_reason in ("length", "content_filter"):
                    return reply
                if empty >= MAX_EMPTY_REPROMPTS:
                    return replace(reply, finish_reason="empty")
                empty += 1
            reprompts += 1
            _log.warning("model %r is asked again: its reply is empty or malformed", request.profile.model)

    async def _reply_or_mistake(self, request: Request) -> ReplyAssembly | str:
        """Return a reply, or the provider's words about a malformed tool call for which it withholds the reply."""
        try:
            return await self._attempts(request, self._publish)
        except ModelError as error:
            if error.code != MALFORMED_CALL:
                raise
            if self._published:  # its text becomes void: the caller begins again
                raise ModelError(error.code, error.message, True) from error
            cause = error.__cause__
            return redact_secrets(cause.text, request) if isinstance(cause, ServerFailure) else error.message

    async def _json_reply(self, request: Request) -> Reply:
        """Request replies in JSON until one can be parsed, up to MAX_REPROMPTS more times, and return the last one.

        The text is held back until it is parsed. Each repetition quotes the mistake to the model.
        """
        first_request = current_request = replace(json_request(request), response_format=response_format(request))
        reprompts = 0
        while True:
            assembly = await self._attempts(current_request, None)
            reply = assembly.reply()
            json_reply = await asyncio.to_thread(parse_reply, assembly.held_text, request, assembly.truncated)
            if not json_reply.mistake or reprompts >= MAX_REPROMPTS:
                break
            reprompts += 1
            _log.warning(
                "model %r is asked again, since its reply cannot be parsed: %s",
                request.profile.model,
                json_reply.mistake,
            )
            current_request = correction_request(first_request, request, assembly.held_text, json_reply.mistake)
        if json_reply.mistake:
            json_reply = await asyncio.to_thread(fallback, assembly.held_text, request, json_reply, assembly.truncated)
        if json_reply.text:
            self._publish(json_reply.text)
        return replace(
            reply,
            finish_reason=json_reply.finish_reason,
            calls=json_reply.calls,
            mistake=json_reply.mistake,
            reprompts=reprompts,
        )

    async def _reply_in_words(self, request: Request) -> Reply:
        """Have the model answer without tools. Tool calls that it writes all the same are removed from the text.

        If nothing else was in the answer, the model is asked again. Only an agent that has called tools writes calls:
        the text of any other agent is passed on as it is.
        """
        plain = asked = plain_request(request)
        if not any(message.get("tool_calls") for message in request.messages):
            return await self._native_reply(plain)
        reprompts = 0
        while True:
            words = SpokenWords(self._publish)
            reply = (await self._attempts(asked, words.say)).reply()
            words.finish()
            if not words.only_calls or reprompts >= MAX_REPROMPTS:
                break
            reprompts += 1
            _log.warning("model %r is asked again: it wrote a tool call, and no words", request.profile.model)
            asked = words_request(plain)
        reply = replace(reply, reprompts=reprompts)
        return replace(reply, finish_reason="malformed", mistake=NO_WORDS) if words.only_calls else reply

    async def _attempts(self, request: Request, on_text: OnText | None) -> ReplyAssembly:
        """Return the reply, repeating a request that fails before `on_text` got a text; without it, at any time.

        Raise ModelError if the error would come again, is a rate limit, or occurs at the last attempt.
        """
        for attempt in range(1, self._model.max_attempts + 1):
            self._attempt = attempt
            found = await self._exchange(request, on_text)
            if isinstance(found, ReplyAssembly):
                return found
            error = found.error
            if not found.again or error.code == RATE_LIMIT or attempt == self._model.max_attempts:
                raise error from found.cause
            text = "model call failed before its first text, attempt %d of %d: %s"
            _log.warning(text, attempt, self._model.max_attempts, redact_error(error, request))
            delay = max(self._model.retry_delay * 2 ** (attempt - 1), error.retry_after or 0.0)
            await asyncio.sleep(min(MAX_RETRY_DELAY, delay))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _exchange(self, request: Request, on_text: OnText | None) -> "ReplyAssembly | _Failure":
        """Send one request, once more if another key takes the place of a refused one."""
        request = replace(request, credential=self._request.credential)
        found = await self._exchange_once(request, on_text)
        if isinstance(found, ReplyAssembly) or found.error.code != "auth":
            return found
        renewed = await self._model.with_credential(request)
        if renewed.credential == request.credential:
            return found
        self._request = replace(self._request, credential=renewed.credential)
        return await self._exchange_once(renewed, on_text)

    async def _exchange_once(self, request: Request, on_text: OnText | None) -> "ReplyAssembly | _Failure":
        """Send one request, and count its usage. Return its reply, or why that is not whole."""
        assembly = ReplyAssembly(request.profile.model, request.max_tokens)
        self._current, self._heard_at = (request, assembly), time.time()
        failure = await self._failure(request, assembly, on_text or assembly.hold)
        self._current = None
        if failure is None or failure.received:
            known = assembly.usage is not None and assembly.usage.tokens_in > 0
            self._spent = self._spent.plus(assembly.spent(0 if known else _estimated_prompt(request)))
        if failure is None:
            return assembly
        error, published = failure.error, on_text is not None and self._published
        once = error.code in _REPEATED_ONCE
        if once and not published:  # paid for, perhaps: what fails twice in this way would do so without end
            error = ModelError(error.code, error.message, False, error.retry_after)
        return replace(failure, error=error, again=not published and (once or error.retryable))

    async def _failure(self, request: Request, assembly: ReplyAssembly, on_text: OnText) -> "_Failure | None":
        """Send one request and read its reply. Return why the reply is not whole, or None."""
        wire, whole = self._model.wire_of(request), asyncio.timeout(reply_assembly.MAX_STREAM_SECONDS)
        try:
            async with whole, asyncio.timeout(request.profile.first_token_timeout) as limit:
                await wire.exchange(request, assembly, self._output(request, assembly, on_text, limit))
        except ServerFailure as error:
            if assembly.finished and not error.status:
                return None
            ran = not error.status or assembly.has_chunks or assembly.usage is not None
            return _Failure(model_error(error, request), ran, error)
        except ModelError as error:
            if assembly.is_whole and error.code == UNREADABLE:
                return None
            return _Failure(_of_reply(request, error), assembly.has_chunks or error.code == UNREADABLE, error)
        except TimeoutError as error:
            assembly.check_time()
            return None if assembly.is_whole else _Failure(_silence(request, assembly), True, error)
        except OSError as error:
            return (
                None if assembly.is_whole else _Failure(_broken(request, assembly, error), assembly.has_chunks, error)
            )
        if assembly.is_whole or assembly.has_whole_calls:
            return None
        return _Failure(_broken(request, assembly, None), True, None)

    def _output(self, request: Request, assembly: ReplyAssembly, on_text: OnText, limit: asyncio.Timeout) -> Output:
        loop, profile, due, output = asyncio.get_running_loop(), request.profile, 0.0, 0

        def heard() -> None:
            """Postpone the time-out of silence. Some servers mark each chunk as the last one."""
            nonlocal due, output
            now = loop.time()
            self._heard_at = time.time()
            goes_on, output = assembly.output_size > output, assembly.output_size
            if assembly.is_ended:
                end = now + (USAGE_TIMEOUT if goes_on or assembly.usage is None else END_TIMEOUT)
                limit.reschedule(end if goes_on else min(end, limit.when() or end))
            elif assembly.has_output:
                if now + profile.idle_timeout > due:
                    due = now + IDLE_TIMEOUT_FACTOR * profile.idle_timeout
                    limit.reschedule(due)
            else:
                limit.reschedule(now + profile.first_token_timeout)

        return Output(on_text, self._thoughts.add if self._listener.on_reasoning else _ignore, heard)


@dataclass(frozen=True)
class _Failure:
    """Why a request has no whole reply."""

    error: ModelError
    received: bool
    """True if the provider has received the request, and may charge for it."""
    cause: Exception | None
    again: bool = False
    """True if it may be sent once more."""


_REPEATED_ONCE = frozenset({"broken_stream", "silent", "model", UNREADABLE})
"""Codes of replies that broke off or cannot be read. Unless a text was published, they are repeated once."""


def _silence(request: Request, assembly: ReplyAssembly) -> ModelError:
    profile = request.profile
    if not assembly.has_output:
        return ModelError(
            "timeout", f"model {profile.model!r} sent no token within {profile.first_token_timeout:g} s", True
        )
    return ModelError("silent", f"model {profile.model!r} fell silent for {profile.idle_timeout:g} s", True)


def _broken(request: Request, assembly: ReplyAssembly, error: OSError | None) -> ModelError:
    model = request.profile.model
    if error is not None and not assembly.has_chunks:
        hint = container_hint(base_url_of(request.profile), Path("/.dockerenv").exists())
        return ModelError("connection", f"model {model!r} cannot be reached: {error}{hint}", True)
    how = "closed the stream" if error is None else f"broke off the stream ({error})"
    where = "in the middle of its reply" if assembly.has_chunks else "before its reply began"
    return ModelError("broken_stream", f"model {model!r} {how} {where}", True)


def _of_reply(request: Request, error: ModelError) -> ModelError:
    """Return the error of a reply, with the model that it is about."""
    if error.code != UNREADABLE:
        return error
    message = f"the reply of model {request.profile.model!r} cannot be read: {error.message}"
    return ModelError(UNREADABLE, message, False)


def _native_correction(request: Request, mistake: str) -> Request:
    words = (
        f"Your last answer could not be used: {mistake[:500]}. Call the tool again with arguments that fit its "
        "schema, or answer in words."
    )
    return replace(request, messages=(*request.messages, {"role": "user", "content": words}))


def _estimated_prompt(request: Request) -> int:
    """Return an estimate of the tokens of the request's messages and tools."""
    files = 0
    texts: list[Any] = [list(request.tools)] if request.tools else []
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, list):
            files += sum(map(attached_tokens, content))
            content = [part for part in content if data_of(part) is None]
        texts.append(message | {"content": content})
    return estimate_tokens(canonical_json(texts)) + files


def _ignore(_: str) -> None:
    return


_StreamItem = str | Reply | ModelError | None


class _RunningStream:
    def __init__(self, model: OpenAIModel, request: Request, listener: Listener | None) -> None:
        self._items: queue.SimpleQueue[_StreamItem] = queue.SimpleQueue()
        self._ended = False  # True once the reply or the error was read: they come after the end of the connection
        self._call = _ModelCall(model, request, listener or Listener(self._items.put))
        self._loop_task = model.start(self._call, self._items)

    @property
    def usage(self) -> ModelUsage:
        """The usage of the call until now."""
        return self._call.usage

    @property
    def progress(self) -> CallProgress:
        """How far the call has come."""
        return self._call.progress

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
