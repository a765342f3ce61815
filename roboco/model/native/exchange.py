"""exchange: one request through the library, and what its provider wants to go on with."""

import asyncio
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import anyio.to_thread
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from roboco.model.learned import Learner
from roboco.model.native.messages import library_messages
from roboco.model.native.provider import EXCHANGE, OpenExchange, Providers, parameters_of, settings_of, taught
from roboco.model.native.reply import ReplyReader, failures_of
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.wire import Output
from roboco.ports.model import Request

MAX_CONTINUATIONS = 8
"""Further requests of one reply that the provider pauses while its own tools run."""
MAX_BEDROCK_STREAMS = 200
"""Threads for streams of Bedrock, whose package has no asynchronous client."""


@dataclass(frozen=True)
class _Prepared:
    model: Model[Any]
    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters


class Exchanges:
    """Sends requests through the library. Use it in one event loop."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._providers = Providers()
        self._lock = Lock()

    async def exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        """Send the request, and read its reply. Learn from a refusal that names a parameter, and repeat the request."""
        await self._learner.accepted(request, lambda lessons: self._send(taught(request, lessons), assembly, output))

    async def close(self) -> None:
        """Close all connections."""
        await self._providers.close()

    async def _send(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        opened = OpenExchange(output.heard)
        EXCHANGE.set(opened)
        try:
            with failures_of(request, assembly):
                await self._exchange(request, assembly, output)
        finally:
            await opened.close()

    async def _exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, MAX_BEDROCK_STREAMS)
        prepared = await asyncio.to_thread(self._prepare, request)
        reader = ReplyReader(assembly, output)
        whole = await _stream(prepared, None, reader)
        for _ in range(MAX_CONTINUATIONS):
            if whole.state != "suspended" or request.profile.provider != "anthropic" or assembly.exceeded_limit:
                break
            more = await _stream(prepared, whole, reader)
            whole = replace(more, parts=[*whole.parts, *more.parts])
        if not assembly.exceeded_limit:
            reader.finish(whole)

    def _prepare(self, request: Request) -> _Prepared:
        """Return what the library needs. The first request to a provider imports its package."""
        with self._lock:
            model = self._providers.model(request)
        return _Prepared(model, library_messages(request.messages), settings_of(request), parameters_of(request))


async def _stream(prepared: _Prepared, begun: ModelResponse | None, reader: ReplyReader) -> ModelResponse:
    """Send the request, with what its reply has begun with, and return the response. Leaving closes the connection."""
    async with model_request_stream(
        prepared.model,
        [*prepared.messages, *([] if begun is None else [begun])],
        model_settings=prepared.settings,
        model_request_parameters=prepared.parameters,
        instrument=False,
    ) as stream:
        await reader.read(stream)
        return stream.get()
