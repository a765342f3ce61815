"""agent_events: a live stream as the events of document 003, as roboto.ai's client makes them from deltas. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from roboco.domain.history.part import ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.schema import RecordModel
from roboco.domain.session.agent_session import agent_message, tool_response
from roboco.domain.session.session import SessionError, message_of
from roboco.domain.stream.item import ItemData, StepFinal, StreamItem, TextPartDelta, ToolCallItem, ToolResultItem


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
    writing = None
    for item in items:
        data = item.data
        of_turn = (data.step_id, data.attempt) if isinstance(data, TextPartDelta) else None
        if writing is not None and of_turn != writing:
            yield AgentTextEndEvent()
        if of_turn is not None and of_turn != writing:
            yield AgentStartTextEvent()
        writing = of_turn
        yield from _events(data)


def _events(data: ItemData) -> Iterator[AgentEvent]:
    match data:
        case TextPartDelta(text=text):
            yield AgentTextDeltaEvent(text=text)
        case ToolCallItem(part=part):
            call = part.tool_call
            yield AgentToolUseEvent(name=call.tool_name, tool_use_id=call.id, input=call.args)
        case ToolResultItem(part=part, tool_name=name):
            yield _result_event(name, part)
        case StepFinal(step=step):
            yield from _errors(step)
        case _:
            pass


def _result_event(name: str, part: ToolResultPart) -> AgentToolResultEvent:
    result = part.tool_result
    return AgentToolResultEvent(
        name=name,
        tool_use_id=result.tool_call_id,
        success=not result.is_error,
        output=tool_response(result.error or result.result if result.is_error else result.result, result.is_error),
        runtime_ms=result.runtime_ms,
    )


def _errors(step: TaskStep) -> Iterator[AgentErrorEvent]:
    for content in agent_message(message_of(step, {})).content:
        if isinstance(content, SessionError):
            yield AgentErrorEvent(error_message=content.error_message, error_code=content.error_code)
