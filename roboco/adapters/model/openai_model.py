"""Models over the openai package: streams that can be closed from any thread at any moment."""

import asyncio
import logging
import os
import queue
import time
from collections.abc import Iterator
from typing import Any

import openai
from openai import AsyncOpenAI

from roboco.adapters.model.assembly import Assembly
from roboco.adapters.model.loop import LoopThread, Running
from roboco.errors import ModelError
from roboco.ports import ModelStream, Reply, Request

_log = logging.getLogger(__name__)

TRIES = 4
"""How often a call is tried that fails before its first token."""
PAUSE = 1.0
"""Seconds before the second try; the pause doubles each time, and a Retry-After is obeyed up to LONGEST."""
LONGEST = 30.0
GATHER = 0.005
"""Seconds between two texts at least: what a fast model says meanwhile is gathered into one. The first is sent at
once."""

_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})


class OpenAIModel:
    """Calls any server that speaks the chat completions protocol.

    A profile's `base_url` and `api_key_env` win over OPENAI_BASE_URL and OPENAI_API_KEY.
    """

    def __init__(self, tries: int = TRIES, pause: float = PAUSE) -> None:
        self._tries = tries
        self._pause = pause
        self._loop = LoopThread()
        self._clients: dict[tuple[int, str | None, str], AsyncOpenAI] = {}

    def stream(self, request: Request) -> ModelStream:
        """Begin the call; ModelError from the stream says what failed."""
        return _Stream(self, request)

    async def run(self, request: Request, out: "queue.SimpleQueue[_Item]") -> None:
        """Make the call and put texts, the reply, or what failed into the queue; None ends it."""
        try:
            assembly = await self._first_try_that_speaks(request, out)
            out.put(assembly.reply())
        except ModelError as error:
            out.put(error)
        except Exception as error:
            _log.exception("a model call failed in a way that was not foreseen")
            out.put(ModelError("internal", f"model {request.profile.model!r}: {error!r}"[:300], False))
        finally:
            out.put(None)

    async def _first_try_that_speaks(self, request: Request, out: "queue.SimpleQueue[_Item]") -> Assembly:
        for attempt in range(1, self._tries + 1):
            assembly = Assembly(request.profile.model)
            try:
                await self._stream(request, assembly, out)
                return assembly
            except (openai.OpenAIError, ModelError) as error:
                failed = error if isinstance(error, ModelError) else told(error, request)
                if assembly.begun or not failed.retryable or attempt == self._tries:
                    raise failed from error
                _log.warning("model call failed before its first token, try %d of %d: %s", attempt, self._tries, failed)
                await asyncio.sleep(_pause(error, self._pause * 2 ** (attempt - 1)))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _stream(self, request: Request, assembly: Assembly, out: "queue.SimpleQueue[_Item]") -> None:
        profile = request.profile
        try:
            async with asyncio.timeout(profile.first_token_timeout) as limit:
                async with await self._client(request).chat.completions.create(**_arguments(request)) as chunks:
                    async for chunk in chunks:
                        if text := assembly.take(chunk):
                            out.put(text)
                        if assembly.begun:
                            limit.reschedule(asyncio.get_running_loop().time() + profile.idle_timeout)
        except TimeoutError as error:
            waited = profile.idle_timeout if assembly.begun else profile.first_token_timeout
            what = "fell silent for" if assembly.begun else "sent no token within"
            raise ModelError("timeout", f"model {profile.model!r} {what} {waited:g} s", True) from error
        except (openai.OpenAIError, ModelError):
            raise
        except Exception as error:
            raise ModelError("broken_stream", f"model {profile.model!r} broke off: {error!r}", True) from error
        if not assembly.finished:
            raise ModelError("broken_stream", f"model {profile.model!r} broke off in the middle of its answer", True)

    def _client(self, request: Request) -> AsyncOpenAI:
        name = key_name(request)
        key = os.environ.get(name, "")
        base_url = request.profile.base_url or os.environ.get("OPENAI_BASE_URL") or None
        if not key and base_url is None:
            raise ModelError("no_key", f"no model key: {name} is not set where the agents worker runs", False)
        if not (key.isascii() and key.isprintable()):
            raise ModelError("no_key", f"the key in {name} holds characters that cannot be sent; set it anew", False)
        identity = (os.getpid(), base_url, key)
        if identity not in self._clients:
            self._clients[identity] = AsyncOpenAI(
                api_key=key or "none", base_url=base_url, max_retries=0, timeout=openai.Timeout(600, connect=10)
            )
        return self._clients[identity]

    def start(self, request: Request, out: "queue.SimpleQueue[_Item]") -> Running:
        """Have the loop make the call."""
        return self._loop.submit(self.run(request, out))


_Item = str | Reply | ModelError | None


class _Stream:
    def __init__(self, model: OpenAIModel, request: Request) -> None:
        self._out: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._running = model.start(request, self._out)

    def __iter__(self) -> Iterator[str | Reply]:
        due = 0.0
        held: _Item = ""
        while True:
            item = held or self._out.get()
            held = ""
            if isinstance(item, str):
                item, held = self._gathered(item, due)
                due = time.monotonic() + GATHER
            if item is None:
                return
            if isinstance(item, ModelError):
                raise item
            yield item
            if held is None:
                return

    def close(self) -> None:
        """Close the connection to the model now, from any thread; iteration then ends. Twice is once."""
        self._running.cancel()
        self._out.put(None)

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed: whether it is, after so many seconds at most."""
        return self._running.ended.wait(seconds)

    def _gathered(self, text: str, due: float) -> tuple[str, _Item]:
        """All text that comes until `due`, and what came after it, or ""."""
        texts = [text]
        while True:
            try:
                item = self._out.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                return "".join(texts), ""
            if not isinstance(item, str):
                return "".join(texts), item
            texts.append(item)


def key_name(request: Request) -> str:
    """The environment variable with the profile's key. A profile with its own address never gets OPENAI_API_KEY."""
    profile = request.profile
    return profile.api_key_env or ("OPENAI_API_KEY" if profile.base_url is None else "")


def told(error: openai.OpenAIError, request: Request) -> ModelError:
    """The error as a user can act on it; the model's key never stands in it, whatever the server answers."""
    failed = _explained(error, request)
    secret = os.environ.get(key_name(request), "")
    message = failed.message.replace(secret, "***") if secret else failed.message
    return ModelError(failed.code, message[:400], failed.retryable)


def _explained(error: openai.OpenAIError, request: Request) -> ModelError:
    model = request.profile.model
    key = key_name(request)
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            message = (
                f"model {model!r} refuses the key in {key or 'no variable'} ({error.status_code}); set a valid one"
            )
            return ModelError("auth", message, False)
        case openai.NotFoundError():
            return ModelError("not_found", f"model {model!r} is not there (404): {_body(error)}", False)
        case openai.RateLimitError():
            return ModelError("rate_limit", f"model {model!r} is at its rate limit (429): {_body(error)}", True)
        case openai.APIStatusError():
            retryable = error.status_code >= 500 or error.status_code in _RETRYABLE_STATUS
            return ModelError("status", f"model {model!r} answers {error.status_code}: {_body(error)}", retryable)
        case openai.APIConnectionError():
            cause = error.__cause__ or error
            return ModelError("connection", f"model {model!r} cannot be reached: {cause}", True)
        case _:
            return ModelError("model", f"model {model!r} failed: {str(error)[:300]}", True)


def _body(error: openai.APIStatusError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error.message)


def _pause(error: Exception, pause: float) -> float:
    header = error.response.headers.get("retry-after", "") if isinstance(error, openai.APIStatusError) else ""
    asked = float(header) if header.replace(".", "", 1).isdigit() else 0.0
    return min(LONGEST, max(pause, asked))


def _arguments(request: Request) -> dict[str, Any]:
    profile = request.profile
    optional = {"temperature": profile.temperature, "top_p": profile.top_p, "max_tokens": profile.max_tokens}
    arguments: dict[str, Any] = {key: value for key, value in optional.items() if value is not None}
    if request.tools:
        arguments["tools"] = list(request.tools)
    return arguments | {
        "model": profile.model,
        # The package walks typed arguments by reflection, on the one thread that carries all streams: 19 ms
        # instead of 3 for 60 messages. The extra body goes out as it is.
        "messages": [],
        "extra_body": {"messages": list(request.messages)},
        "stream": True,
        "stream_options": {"include_usage": True},
    }
