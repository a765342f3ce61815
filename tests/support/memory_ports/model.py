"""A model whose replies come from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError
from roboco.ports.model import CallProgress, Listener, Reply, Request, RequestedCall


@dataclass(frozen=True)
class ScriptedReply:
    """A scripted reply: texts in order, then calls, each a name with arguments as an object or as raw text.

    With `error` the model call fails after the texts. `meanwhile` runs once the texts are streamed. A `mistake` is the
    reason why the reply contains no readable tool call.
    """

    texts: tuple[str, ...] = ()
    calls: tuple[tuple[str, Any], ...] = ()
    error: ModelError | None = None
    tokens: tuple[int, int] = (10, 5)
    meanwhile: Callable[[], None] = lambda: None
    mistake: str = ""
    reasoning: tuple[str, ...] = ()
    """Texts of reasoning before the texts."""
    finish_reason: str = ""
    refusal: str = ""


Script = Callable[[Request], ScriptedReply]
"""A script uses only the request, so that a repeated turn gets the same reply."""


def says(text: str, *calls: tuple[str, Any]) -> ScriptedReply:
    """Return a reply that streams the text word by word, then the calls."""
    words = text.split(" ")
    return ScriptedReply(tuple(word if index == 0 else f" {word}" for index, word in enumerate(words) if text), calls)


class ScriptedModel:
    """A model that keeps every request and every stream."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.streams: list[ScriptedStream] = []

    def stream(self, request: Request, listener: Listener | None = None) -> "ScriptedStream":
        """Start a model call."""
        self.requests.append(request)
        self.streams.append(ScriptedStream(self.script(request), listener))
        return self.streams[-1]


class ScriptedStream:
    """A running model call."""

    def __init__(self, script: ScriptedReply, listener: Listener | None = None) -> None:
        self._said = script
        self._listener = listener
        self.usage = ModelUsage()
        self.progress = CallProgress(1, 1, 0.0, 180.0, server="http://model/v1")
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Return True if the connection was closed."""
        return self._closed.is_set()

    def __iter__(self) -> Iterator[str | Reply]:
        for thought in self._said.reasoning:
            if self._listener is not None and self._listener.on_reasoning is not None:
                self._listener.on_reasoning(thought)
        for text in self._said.texts:
            if self.closed:
                return
            if self._listener is None:
                yield text
            else:
                self._listener.on_text(text)
        self._said.meanwhile()
        if self._said.error is not None:
            raise self._said.error
        if not self.closed:
            yield self._reply()

    def close(self) -> None:
        self._closed.set()

    def wait_closed(self, seconds: float) -> bool:
        return self.closed

    def _reply(self) -> Reply:
        calls = tuple(
            RequestedCall(name, args if isinstance(args, str) else json.dumps(args)) for name, args in self._said.calls
        )
        tokens_in, tokens_out = self._said.tokens
        reason = "malformed" if self._said.mistake else "tool_calls" if calls else "stop"
        return Reply(
            "scripted",
            self._said.finish_reason or reason,
            calls,
            ModelUsage(tokens_in, tokens_out),
            mistake=self._said.mistake,
            refusal=self._said.refusal,
            reasoning="".join(self._said.reasoning),
        )
