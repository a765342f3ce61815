"""Models: requests, and answers as they come."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from roboco.domain.memory import Message
from roboco.domain.team import ModelProfile


@dataclass(frozen=True)
class Request:
    """One model call: messages and tools as the chat completions protocol has them."""

    profile: ModelProfile
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it: `arguments` should be a JSON object, but may be anything."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """How a model call ended; token counts as the model reported them, times in milliseconds."""

    model: str
    finish_reason: str
    calls: tuple[RequestedCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    first_token_ms: int = 0
    duration_ms: int = 0


class ModelStream(Protocol):
    """A running model call: texts as they come, then one Reply."""

    def __iter__(self) -> Iterator[str | Reply]:
        """Texts, gathered while they come fast, and at the end the Reply; ModelError if the call fails."""

    def close(self) -> None:
        """Close the connection to the model now, from any thread; iteration then ends. Twice is once."""

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed: whether it is, after so many seconds at most."""


class Model(Protocol):
    """A way to call models."""

    def stream(self, request: Request) -> ModelStream:
        """Begin the call. Failures before the first token are tried again; later ones are raised."""


class Prompts(Protocol):
    """Templates of prompts."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The rendered prompt; UsageError if it names what is not there."""
