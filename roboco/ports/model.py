"""Models: requests, and answers as they come."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from roboco.domain.chat import Message
from roboco.domain.model_profile import ModelProfile


@dataclass(frozen=True)
class Request:
    """One model call: messages and tools as the chat completions protocol has them.

    `tool_choice` "required" asks for one call at least; `max_tokens` wins over the profile's where it is smaller.
    """

    profile: ModelProfile
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    tool_choice: Literal["auto", "required"] = "auto"
    max_tokens: int | None = None


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it: `arguments` should be a JSON object, but may be anything."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """How a model call ended; token counts as the model reported them, times in milliseconds.

    `reprompts` is how often the model was told that its answer could not be read; their tokens are counted too.
    `finish_reason` "malformed" says that the last answer could not be read either: it is the text.
    `limit` is the limit of Roboco at which the answer was cut off, with `finish_reason` "length"; "" if it was not.
    """

    model: str
    finish_reason: str
    calls: tuple[RequestedCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    first_token_ms: int = 0
    duration_ms: int = 0
    reprompts: int = 0
    limit: str = ""


Say = Callable[[str], None]
"""Is told each text as it comes, from any thread, and must not wait."""


class ModelStream(Protocol):
    """A running model call: texts as they come, then one Reply.

    Whatever the server sends, every text, name and message that comes out can be stored as UTF-8, and no count of
    tokens is below 0.
    """

    def __iter__(self) -> Iterator[str | Reply]:
        """Texts, unless somebody else is told them, and at the end the Reply; ModelError if the call fails."""

    def close(self) -> None:
        """Close the connection to the model now, from any thread; iteration then ends. Twice is once."""

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed: whether it is, after so many seconds at most."""


class Model(Protocol):
    """A way to call models."""

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Begin the call. Failures before the first token are tried again; later ones are raised.

        Texts are gathered while they come fast. With `say` they go there, and whoever iterates is woken once, at the
        end; nothing is said after that, or once the stream was closed and `wait_closed` has said so.
        A provider's rate limit is raised at once, as ModelError "rate_limit" with its `retry_after`; the caller waits.
        """


class Prompts(Protocol):
    """Templates of prompts."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The rendered prompt; UsageError if it names what is not there, takes too much work or becomes too long."""

    def sharing(self) -> "Prompts":
        """Return prompts whose renderings share one allowance of work, for the prompts of a whole team."""
