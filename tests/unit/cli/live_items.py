"""Items of a stream, and the output of the live view for them without a terminal."""

import io
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.part import Part, ToolCall, ToolCallPart, ToolResult, ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import StepEnded, StreamChunk, ToolCalled, ToolReturned, parse_stream_message
from roboco.domain.stream.item import (
    ItemData,
    StepFinal,
    TextPartDelta,
    ToolCallItem,
    ToolResultItem,
    stream_item,
)

STARTED_AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def event(kind: str, seconds: float = 0, **fields: Any) -> ItemData:
    """Return the event of this kind, `seconds` after the start of the task."""
    message = parse_stream_message(
        {"type": f"event_{kind}", "task_id": "t", "timestamp": STARTED_AT + timedelta(seconds=seconds)} | fields
    )
    assert not isinstance(message, StreamChunk | StepEnded | ToolCalled | ToolReturned)
    return message


def delta(text: str, attempt: int = 1, replace: bool = False) -> TextPartDelta:
    """Return a piece of the writer's text."""
    return TextPartDelta(text=text, step_id="step_1", agent_name="writer", attempt=attempt, replace=replace)


def tool_call(name: str, **args: Any) -> ToolCallItem:
    """Return a tool call of the writer."""
    part = ToolCallPart(tool_call=ToolCall(id="tc_1", tool_name=name, args=args))
    return ToolCallItem(step_id="step_1", agent_name="writer", part=part)


def tool_result(result: Any = None, error: str | None = None, runtime_ms: int = 5) -> ToolResultItem:
    """Return the result of that call."""
    record = ToolResult(
        tool_call_id="tc_1", result=result, is_error=error is not None, error=error, runtime_ms=runtime_ms
    )
    return ToolResultItem(tool_name="add", part=ToolResultPart(tool_result=record))


def final(agent: str, *parts: Part, **metadata: Any) -> StepFinal:
    """Return a committed step of this agent."""
    step = TaskStep(step_id="step_1", agent_name=agent, parts=parts, created_at=STARTED_AT, metadata=metadata)
    return StepFinal(step=step)


def show_items(*items: ItemData, typed: Iterable[str] = ()) -> str:
    """Return the output of the live view for the items."""
    file = io.StringIO()
    view = LiveView(Screen(file))
    for message in typed:
        view.note_typed(message)
    for item in items:
        view.show(stream_item(item, "0.0.0.0.1"))
    return file.getvalue()
