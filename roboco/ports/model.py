"""Models: requests and streamed replies."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.team.model_profile import ModelProfile


@dataclass(frozen=True)
class Request:
    """One model call, with messages and tools in the format of chat completions."""

    profile: ModelProfile
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, Any], ...]
    tool_choice: Literal["auto", "required"] = "auto"
    """"required" demands at least one call."""
    max_tokens: int | None = None
    """The largest number of output tokens. The smaller one applies, this or the profile's."""


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it."""

    name: str
    arguments: str
    """A JSON object, or any other text if the model made a mistake."""


@dataclass(frozen=True)
class Reply:
    """The result of a model call, with token counts as the model reports them and times in milliseconds.

    `reprompts` is how often the model was asked again because its answer could not be parsed; the tokens include those
    answers. With `finish_reason` "malformed" the last answer was no readable tool call either: `mistake` is the reason,
    and the texts are its words without the JSON.
    `limit` is the limit of Roboco that cut the answer off, with `finish_reason` "length"; "" if none did.
    """

    model: str
    finish_reason: str
    """The provider's reason, or "malformed" if the last reply could not be parsed either and is returned as text."""
    calls: tuple[RequestedCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    first_token_ms: int = 0
    duration_ms: int = 0
    reprompts: int = 0
    """The number of repeated requests because a reply could not be parsed. The tokens include those replies."""
    limit: str = ""
    mistake: str = ""


OnText = Callable[[str], None]
"""A callback with each text when it arrives, from any thread. It must not block."""


class ModelStream(Protocol):
    """A running model call: texts when they arrive, then one Reply.

    For any output of the server, every text, name and message is valid UTF-8, and no token count is negative.
    """

    def __iter__(self) -> Iterator[str | Reply]:
        """Yield the texts, unless a `on_text` receives them, and finally the Reply.

        Raise ModelError if the call fails.
        """

    def close(self) -> None:
        """Close the connection to the model now. Iteration then ends. Any thread may call this, also repeatedly."""

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, for at most `seconds`. Return True if it is closed."""


class Model(Protocol):
    """Calls models."""

    def stream(self, request: Request, on_text: OnText | None = None) -> ModelStream:
        """Start the call and return its stream. A failure before the first token is retried; a later one is raised.

        Texts that arrive in quick succession are joined. With `on_text`, that function receives the texts, and the
        iterator yields only the Reply. `on_text` is not called after the Reply, nor after `wait_closed` has returned
        True. A provider's rate limit is not retried here: it is raised as ModelError "rate_limit" with its
        `retry_after`.
        """


class Templates(Protocol):
    """Templates of prompts."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """Return the rendered prompt.

        Raise UsageError if it has undefined names, exceeds its allowance of work or becomes too long.
        """

    def with_shared_budget(self) -> "Templates":
        """Return templates whose renderings share one allowance of work, for the prompts of a whole team."""
