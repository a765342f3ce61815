"""A model that says what a script says."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roboco.errors import ModelError
from roboco.ports.model import OnText, Reply, Request, RequestedCall


@dataclass(frozen=True)
class Said:
    """What the model says: texts as they come, then calls (name, and arguments as an object or as raw text).

    With `error` the call fails after the texts. `meanwhile` is done when the texts are out. A `mistake` is why the
    answer was no readable tool call.
    """

    texts: tuple[str, ...] = ()
    calls: tuple[tuple[str, Any], ...] = ()
    error: ModelError | None = None
    tokens: tuple[int, int] = (10, 5)
    meanwhile: Callable[[], None] = lambda: None
    mistake: str = ""


Script = Callable[[Request], Said]
"""A script looks at the request alone, so that a repeated turn says the same again."""


def said(text: str, *calls: tuple[str, Any]) -> Said:
    """The text, word by word, then the calls."""
    words = text.split(" ")
    return Said(tuple(word if index == 0 else f" {word}" for index, word in enumerate(words) if text), calls)


class ScriptedModel:
    """Keeps every request and every stream."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.streams: list[ScriptedStream] = []

    def stream(self, request: Request, on_text: OnText | None = None) -> "ScriptedStream":
        """Begin the call."""
        self.requests.append(request)
        self.streams.append(ScriptedStream(self.script(request), on_text))
        return self.streams[-1]


class ScriptedStream:
    """A running model call; `closed` says whether its connection was closed."""

    def __init__(self, script: Said, say: OnText | None = None) -> None:
        self._said = script
        self._say = say
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._closed.is_set()

    def __iter__(self) -> Iterator[str | Reply]:
        """The texts, then the Reply; ModelError if the script says so, nothing more once it was closed."""
        for text in self._said.texts:
            if self.closed:
                return
            if self._say is None:
                yield text
            else:
                self._say(text)
        self._said.meanwhile()
        if self._said.error is not None:
            raise self._said.error
        if not self.closed:
            yield self._reply()

    def close(self) -> None:
        """Close the connection to the model. Twice is once."""
        self._closed.set()

    def wait_closed(self, seconds: float) -> bool:
        """Whether the connection was closed."""
        return self.closed

    def _reply(self) -> Reply:
        calls = tuple(
            RequestedCall(name, args if isinstance(args, str) else json.dumps(args)) for name, args in self._said.calls
        )
        tokens_in, tokens_out = self._said.tokens
        reason = "malformed" if self._said.mistake else "tool_calls" if calls else "stop"
        return Reply("scripted", reason, calls, tokens_in, tokens_out, mistake=self._said.mistake)
