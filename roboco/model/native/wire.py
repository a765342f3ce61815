"""wire: requests in the own protocols of Anthropic, Gemini, Bedrock and OpenAI (Responses).

    Request ─► messages, settings ─► pydantic-ai ─► the provider's package ─► HTTP
    ReplyAssembly ◄── reply ◄────────── events ◄─────────────┘

The library knows the protocols. Retries, time-outs, limits and tools remain Roboco's. It is imported by the first call
that needs it, in a thread: that takes seconds of processor time.
"""

import asyncio
import importlib
from threading import Lock

from roboco.errors import ModelError
from roboco.model.learned import Learner
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.wire import Output, Wire
from roboco.ports.model import Request

_MODULE = "roboco.model.native.exchange"


class NativeWire:
    """Sends requests with the package of their provider. Use it in one event loop."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._wire: Wire | None = None
        self._lock = Lock()

    async def exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        """Send the request, and read its reply."""
        try:
            wire = await asyncio.to_thread(self._imported)
            await wire.exchange(request, assembly, output)
        except ImportError as error:
            profile = request.profile
            message = (
                f"model {profile.model!r}: provider {profile.provider!r} needs packages that the agents worker does "
                f"not have ({error}): pip install 'roboco[providers]'"
            )
            raise ModelError("setting", message, False) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._wire is not None:
            await self._wire.close()

    def _imported(self) -> Wire:
        with self._lock:
            if self._wire is None:
                self._wire = importlib.import_module(_MODULE).Exchanges(self._learner)
            return self._wire
