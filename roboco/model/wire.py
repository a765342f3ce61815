"""wire: the seam between a model call and the protocol of its server.

OpenAIModel ── retries, repeated questions, time-outs, usage, threads
     │ exchange(request, assembly, output)
     ▼
Wire ── one request and its reply: chat completions, or the native protocol of a provider
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from roboco.model.reply_assembly import ReplyAssembly
from roboco.ports.model import Request


@dataclass(frozen=True)
class Output:
    """Callbacks for a reply that is being read. They run in the thread of the event loop."""

    say: Callable[[str], None]
    """Receives each text that the assembly has returned."""
    think: Callable[[str], None]
    """Receives each text of reasoning that the assembly has returned."""
    heard: Callable[[], None]
    """Is called after each message of the model: it postpones the time-out of silence."""


class Wire(Protocol):
    """The protocol of a server."""

    async def exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        """Send one request, and read its reply into the assembly, until it ends or reaches a limit of the assembly.

        An assistant message has the key `provider` only if this server and model wrote it: then it holds the
        `provider` of that reply. The caller limits the time, and cancels the coroutine: close the connection then, and
        whenever the assembly has exceeded a limit. Return when the server ends the reply, whether it is whole or not.

        Raise ServerFailure if the server refuses the request or breaks off the reply with an error, ModelError for a
        setting that cannot work, and OSError if the server cannot be reached or the connection breaks.
        """

    async def close(self) -> None:
        """Close all connections."""
