"""bodies: the bodies of requests. Fields that are not listed here are checked by `forms.py`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from roboco.domain.conversation import MAX_ITEMS, Metadata
from roboco.domain.inbox.attachments import MAX_CLIENT_TOOLS
from roboco.gateway.bodies.mistakes import FewMistakes, WellFormedBody

JsonObject = dict[str, JsonValue]


class RobocoOptions(BaseModel):
    """Options of Roboco that OpenAI's API lacks: the field `roboco` of a body (`extra_body` of OpenAI's package)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: str | None = None
    """The agent that answers."""
    model: str | None = None
    """The model profile of agents that name none, of a new task."""
    context: JsonObject | None = None
    """Values for the templates of the prompts, of a new task."""
    title: str | None = None
    """The title of a new task."""
    priority: Literal["normal", "low"] | None = None
    """The priority of a new task."""
    goals: list[dict[str, Any]] | None = None
    """Goals to reach."""
    scope: dict[str, Any] | None = None
    """Values for tools."""
    conversation: bool | None = None
    """Whether a new task waits for further messages after its answer. By default a response's does, a chat's ends."""

    def of_message(self) -> dict[str, Any]:
        """Return the options of a message that are set."""
        return self.model_dump(include={"agent", "goals", "scope"}, exclude_none=True)

    def of_task(self) -> dict[str, Any]:
        """Return the options of a new task that are set."""
        return self.model_dump(exclude_none=True)


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="ignore", strict=True)

    include_usage: bool = False
    """Whether a chunk with the usage ends the stream."""


class _Body(FewMistakes):
    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=64)]
    """The name of a team in ROBOCO_TEAMS_DIR."""
    stream: bool | None = None
    """Whether the answer arrives as server-sent events."""
    stream_options: StreamOptions | None = None
    tools: Annotated[list[JsonObject] | None, Field(max_length=MAX_CLIENT_TOOLS)] = None
    """Functions that the client runs."""
    roboco: RobocoOptions = RobocoOptions()

    @property
    def others(self) -> dict[str, Any]:
        """The parameters without a field."""
        return dict(self.model_extra or {})


class ChatBody(_Body):
    """A request for a chat completion."""

    messages: Annotated[list[JsonObject], Field(min_length=1)]
    """The whole conversation; the last message is the user's, or those at the end are results of functions."""


class ConversationParam(BaseModel):
    """A conversation by its id."""

    id: str


class ResponseBody(_Body):
    """A request for a response."""

    input: Annotated[str | list[JsonObject], Field(min_length=1)]
    """The message of the user, or a list of items."""
    instructions: str | None = None
    """Instructions for this answer; agents read them as the user's view, below the prompts of their team."""
    background: bool | None = None
    """Whether the request returns as soon as the task is accepted."""
    previous_response_id: str | None = None
    """The response after which the conversation continues."""
    conversation: str | ConversationParam | None = None
    """The conversation that continues."""
    include: list[str] | None = None

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation, or None."""
        return self.conversation.id if isinstance(self.conversation, ConversationParam) else self.conversation


class MetadataBody(WellFormedBody):
    """The metadata of a conversation."""

    model_config = ConfigDict(extra="forbid")

    metadata: Annotated[Metadata | None, Field(max_length=16)] = None
    """Texts for the client alone."""


class ConversationBody(MetadataBody):
    """A request for a new conversation."""

    items: Annotated[list[JsonObject] | None, Field(max_length=MAX_ITEMS)] = None
    """The items before its first response."""


class ItemsBody(WellFormedBody):
    """A request to add items."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[JsonObject], Field(min_length=1, max_length=MAX_ITEMS)]


Order = Literal["asc", "desc"]
