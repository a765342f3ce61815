"""Models: requests and streamed replies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.usage import ModelUsage
from roboco.ports.remote_task import RemoteTask


@dataclass(frozen=True)
class Request:
    """One model call, with messages and tools in the format of chat completions.

    An assistant message may have the key `provider`: the `provider` of the reply that it was. The adapter returns what
    it holds to the same server and model, and removes it for any other.
    """

    profile: ModelProfile
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, Any], ...]
    tool_choice: Literal["auto", "required"] = "auto"
    """"required" demands at least one call."""
    max_tokens: int | None = None
    """The output tokens that the limits leave, or None. The stream ends when they are used up."""
    output: dict[str, Any] | None = None
    """The JSON Schema of the answer, or None for words. The text of a reply without calls is the answer then."""
    response_format: dict[str, Any] | None = None
    """The form of the reply, as chat completions describe it, or None. A server may not know it."""
    tenant: str = ""
    """The tenant of the task, whose credential may be the key."""
    credential: str = field(default="", repr=False)
    """The key, if it is a credential. The adapter sets it."""
    remote: RemoteTask | None = field(default=None, repr=False, compare=False)
    """The task of the remote agent that the request is for, or None for a model."""


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it."""

    name: str
    arguments: str
    """A JSON object, or any other text if the model made a mistake."""


@dataclass(frozen=True)
class Reply:
    """The result of a model call, with times in milliseconds.

    `finish_reason` is the provider's reason, in the words of chat completions where it has an equivalent. Roboco's own:
    "malformed" if the last reply could not be parsed either, and "empty" if the model has said and called nothing.
    """

    model: str
    finish_reason: str
    calls: tuple[RequestedCall, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    """The tokens of all requests of the call, those of failed and repeated ones too."""
    first_token_ms: int = 0
    duration_ms: int = 0
    reprompts: int = 0
    """The number of repeated requests because a reply could not be used."""
    limit: str = ""
    """The limit of Roboco that cut the reply off, with `finish_reason` "length"; "" if none did."""
    mistake: str = ""
    """Why the reply cannot be used, with `finish_reason` "malformed"."""
    refusal: str = ""
    """The words with which the model, or a filter of its provider, refuses to answer; "" if it does not."""
    reasoning: str = ""
    """The beginning of the model's reasoning, as far as its provider shows it."""
    provider: dict[str, Any] = field(default_factory=dict)
    """What the same server and model must receive with the reply in later requests: JSON of bounded size, or {}."""

    @property
    def tokens_in(self) -> int:
        """The tokens of all prompts of the call."""
        return self.usage.tokens_in

    @property
    def tokens_out(self) -> int:
        """The tokens that were generated in the call."""
        return self.usage.tokens_out


OnText = Callable[[str], None]
"""A callback with each text when it arrives, from any thread. It must not block."""


@dataclass(frozen=True)
class CallProgress:
    """How far a model call has come."""

    request: int
    """The number of the request, from 1."""
    requests: int
    """The number of requests that fail without a text until the call fails."""
    heard_at: float
    """When the model last sent anything, or when the request was sent, in Unix seconds."""
    limit: float
    """Seconds of silence after which the request fails."""
    server: str
    """The address of the model server, without secrets."""
    reasoning: int = 0
    """Tokens of reasoning so far, as an estimate."""


@dataclass(frozen=True)
class Listener:
    """The callbacks of a model call, from any thread. They must not block."""

    on_text: OnText
    on_reasoning: OnText | None = None
    """Receives the reasoning as it arrives."""


class ModelStream(Protocol):
    """A running model call: texts when they arrive, then one Reply.

    For any output of the server, every text, name and message is valid UTF-8, and no token count is negative.
    """

    def __iter__(self) -> Iterator[str | Reply]:
        """Yield the texts, unless a `listener` receives them, and finally the Reply.

        Raise ModelError if the call fails.
        """

    @property
    def usage(self) -> ModelUsage:
        """The usage of the call until now, as an estimate. Any thread may read it."""

    @property
    def progress(self) -> CallProgress:
        """How far the call has come. Any thread may read it."""

    def close(self) -> None:
        """Close the connection to the model now. Iteration then ends. Any thread may call this, also repeatedly."""

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, for at most `seconds`. Return True if it is closed."""


CallModel = Callable[[Request, Listener | None], ModelStream]
"""Starts the call and returns its stream. A failure before the first token is retried; a later one is raised.

Texts that arrive in quick succession are joined. With a listener, its `on_text` receives the texts, and the iterator
yields only the Reply. No callback is called after the Reply, nor after `wait_closed` has returned True. A provider's
rate limit is not retried here: it is raised as ModelError "rate_limit" with its `retry_after`.
"""
