"""StreamItem: an item of a task's merged stream, a union in which `type` determines the class of `data`.

    match item.type:
        case "text_part_delta":
            item.data.text          # a TextPartDelta
        case "step_final":
            item.data.step          # a StepFinal

An event of a newer release is an item of type `event_unknown`; its `data.type` is the original type.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar, cast

from roboco.domain.history.part import ToolCallPart, ToolResultPart
from roboco.domain.history.step import TaskStep
from roboco.domain.schema import RecordModel
from roboco.domain.stream.event import (
    AgentHandedOff,
    AgentSelected,
    ErrorOccurred,
    PassedEvent,
    StatusChanged,
    StreamReset,
    SubTaskStarted,
    TaskEnded,
    TaskStarted,
    ToolUnknown,
    TurnRestarted,
    UnknownEvent,
    UserInterrupted,
    UserMessageAdded,
)

Type = TypeVar("Type", bound=str, covariant=True)
Data = TypeVar("Data", bound=RecordModel, covariant=True)


class TextPartDelta(RecordModel):
    """A piece of a step's text."""

    type: Literal["text_part_delta"] = "text_part_delta"
    text: str
    step_id: str
    agent_name: str
    attempt: int
    replace: bool = False
    """True if the text replaces all earlier text of the step."""


class ReasoningDelta(RecordModel):
    """A piece of the reasoning that precedes a step's text. It is no part of the text."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    text: str
    step_id: str
    agent_name: str
    attempt: int


class ToolCallItem(RecordModel):
    """A complete tool call."""

    type: Literal["tool_call_part"] = "tool_call_part"
    step_id: str
    agent_name: str
    part: ToolCallPart


class ToolResultItem(RecordModel):
    """A complete tool result."""

    type: Literal["tool_result_part"] = "tool_result_part"
    tool_name: str
    part: ToolResultPart


class StepFinal(RecordModel):
    """A committed step."""

    type: Literal["step_final"] = "step_final"
    step: TaskStep


@dataclass(frozen=True)
class TypedItem(Generic[Type, Data]):
    """An item of one type."""

    type: Type
    data: Data
    cursor: str
    """The position of the item. A follower that resumes from it receives the items after this one."""
    task_id: str = ""
    """The task of the item, in a stream with sub-tasks; otherwise ""."""

    @cached_property
    def data_json(self) -> str:
        """The data as JSON, computed once for all followers that share the item; with its task if it names one."""
        data = self.data.model_dump_json()
        return f'{{"task_id":"{self.task_id}","data":{data}}}' if self.task_id else data


StreamItem = (
    TypedItem[Literal["text_part_delta"], TextPartDelta]
    | TypedItem[Literal["reasoning_delta"], ReasoningDelta]
    | TypedItem[Literal["tool_call_part"], ToolCallItem]
    | TypedItem[Literal["tool_result_part"], ToolResultItem]
    | TypedItem[Literal["step_final"], StepFinal]
    | TypedItem[Literal["event_task_start"], TaskStarted]
    | TypedItem[Literal["event_agent_select"], AgentSelected]
    | TypedItem[Literal["event_agent_handoff"], AgentHandedOff]
    | TypedItem[Literal["event_sub_task"], SubTaskStarted]
    | TypedItem[Literal["event_tool_unknown"], ToolUnknown]
    | TypedItem[Literal["event_user_message"], UserMessageAdded]
    | TypedItem[Literal["event_user_interrupt"], UserInterrupted]
    | TypedItem[Literal["event_turn_restart"], TurnRestarted]
    | TypedItem[Literal["event_status"], StatusChanged]
    | TypedItem[Literal["event_task_end"], TaskEnded]
    | TypedItem[Literal["event_stream_reset"], StreamReset]
    | TypedItem[Literal["event_error"], ErrorOccurred]
    | TypedItem[Literal["event_unknown"], UnknownEvent]
)
"""An item of the merged stream: its `type`, its `data`, and the `cursor` after which a later call continues."""

ItemData = TextPartDelta | ReasoningDelta | ToolCallItem | ToolResultItem | StepFinal | PassedEvent | UnknownEvent
"""The data of an item."""


def stream_item(data: ItemData, cursor: str) -> StreamItem:
    """Return the stream item of the data, with the type of the data."""
    kind = "event_unknown" if isinstance(data, UnknownEvent) else data.type
    return cast(StreamItem, TypedItem(kind, data, cursor))


def final_text(item: StreamItem) -> str:
    """Return the text of the item's committed step of an agent; empty for any other item."""
    return item.data.step.text if item.type == "step_final" and item.data.step.by_agent else ""
