"""agent_events: a live stream as the events of document 003, as roboto.ai's client makes them from deltas. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from roboco.domain.schema import RecordModel
from roboco.domain.session.agent_session import (
    AgentContent,
    AgentToolResultContent,
    AgentToolUseContent,
    agent_message,
)
from roboco.domain.session.session import SessionError, messages_of
from roboco.domain.stream.item import StepFinal, StreamItem, TextPartDelta


class AgentStartTextEvent(RecordModel):
    """The text of a message begins."""


class AgentTextDeltaEvent(RecordModel):
    """A piece of text."""

    text: str


class AgentTextEndEvent(RecordModel):
    """The text of a message is complete."""


class AgentToolUseEvent(RecordModel):
    """An agent calls a tool."""

    name: str
    tool_use_id: str
    input: dict[str, Any] | None = None


class AgentToolResultEvent(RecordModel):
    """A tool call has its result."""

    name: str
    tool_use_id: str
    success: bool
    output: dict[str, Any] | None = None
    runtime_ms: int | None = None


class AgentErrorEvent(RecordModel):
    """A message has failed."""

    error_message: str
    error_code: str | None = None


AgentEvent = (
    AgentStartTextEvent
    | AgentTextDeltaEvent
    | AgentTextEndEvent
    | AgentToolUseEvent
    | AgentToolResultEvent
    | AgentErrorEvent
)


def agent_events(items: Iterable[StreamItem]) -> Iterator[AgentEvent]:
    """Yield the events of the items. If a turn is restarted, its text begins again: what was before is void."""
    writing, before = None, None
    for item in items:
        data = item.data
        of_turn = (data.step_id, data.attempt) if isinstance(data, TextPartDelta) else None
        if writing is not None and of_turn != writing:
            yield AgentTextEndEvent()
        if of_turn is not None and of_turn != writing:
            yield AgentStartTextEvent()
        writing = of_turn
        if isinstance(data, TextPartDelta):
            yield AgentTextDeltaEvent(text=data.text)
        if isinstance(data, StepFinal):
            [message] = messages_of([data.step], before)
            before = data.step
            yield from filter(None, map(_event, agent_message(message).content))


def _event(content: AgentContent) -> AgentEvent | None:
    """Return the event of a content of a whole message, or None for a text, which the stream has already had."""
    match content:
        case AgentToolUseContent():
            return AgentToolUseEvent(name=content.tool_name, tool_use_id=content.tool_use_id, input=content.input)
        case AgentToolResultContent():
            return AgentToolResultEvent(
                name=content.tool_name,
                tool_use_id=content.tool_use_id,
                success=content.status == "success",
                output=content.raw_response,
                runtime_ms=content.runtime_ms,
            )
        case SessionError():
            return AgentErrorEvent(error_message=content.error_message, error_code=content.error_code)
        case _:
            return None
