"""What is told live: chunks on the content channel, events on the execution channel.

Both carry `seq` (from 1, contiguous per channel), `generation` (of the logs: a new one begins after a
loss in Redis) and how far the other channel was (`events` in a chunk, `chunks` in an event), so that
the two can be merged in the order in which they happened. Those four are added by the script that
numbers a message; `body` is the rest, ready to be sent.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.history.step import TaskStep
from roboco.domain.schema import RECORDED, Recorded
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_difference import ToolDifference
from roboco.domain.usage import Spent


class StreamChunk(Recorded):
    """A piece of text, as the model wrote it; `attempt` counts from 1."""

    type: Literal["content_chunk"] = "content_chunk"
    seq: int = 0
    generation: str = ""
    events: int = 0
    task_id: str
    step_id: str
    agent_name: str
    attempt: int
    text: str


class _Event(Recorded):
    seq: int = 0
    generation: str = ""
    chunks: int = 0
    task_id: str
    timestamp: datetime


class TaskStarted(_Event):
    """The task was accepted."""

    type: Literal["event_task_start"] = "event_task_start"
    team: str = ""


class AgentSelected(_Event):
    """The router chose who acts next, and why; `step_id` is the step to come."""

    type: Literal["event_agent_select"] = "event_agent_select"
    agent_name: str
    step_id: str
    reason: str
    routing: dict[str, Any] = {}


class AgentHandedOff(_Event):
    """An agent handed the work to another one."""

    type: Literal["event_agent_handoff"] = "event_agent_handoff"
    from_agent: str
    to_agent: str
    reason: str


class ToolCalled(_Event):
    """An agent has called a tool."""

    type: Literal["event_tool_call"] = "event_tool_call"
    step_id: str
    agent_name: str
    tool_call: ToolCall


class SubTaskBegun(_Event):
    """A tool call gave its work to another team: `sub_task_id` is the task that does it."""

    type: Literal["event_sub_task"] = "event_sub_task"
    tool_call_id: str
    sub_task_id: str
    team: str


class ToolReturned(_Event):
    """A tool call has its result."""

    type: Literal["event_tool_result"] = "event_tool_result"
    tool_name: str
    tool_result: ToolResult


class ToolUnknown(_Event):
    """Nobody knows whether a tool call had its effect: the task waits until a person says so."""

    type: Literal["event_tool_unknown"] = "event_tool_unknown"
    tool_name: str
    tool_call_id: str
    reason: str


class UserSpoke(_Event):
    """A message of the user became a step."""

    type: Literal["event_user_message"] = "event_user_message"
    step_id: str
    text: str


class UserInterrupted(_Event):
    """The user stopped or interrupted the work, with the item of this id.

    `receipt` says when that was requested, seen by the worker, and the model's connection closed, and how many chunks
    came after; it is empty where no agent was speaking.
    """

    type: Literal["event_user_interrupt"] = "event_user_interrupt"
    reason: str
    item_id: str = ""
    receipt: dict[str, Any] = {}


class TurnRestarted(_Event):
    """A turn begins again as `attempt`: the text of the attempts before is void.

    If it is `replaced`, that attempt is not made: a step that is no agent's takes the place of the turn.
    """

    type: Literal["event_turn_restart"] = "event_turn_restart"
    step_id: str
    attempt: int
    reason: str
    replaced: bool = False


class StatusChanged(_Event):
    """The task has a new status; `calls` are the ids of tool calls whose answer or approval it waits for.

    `changes` are the changed tools of the first of these calls, with a bounded piece of each text.
    """

    type: Literal["event_status"] = "event_status"
    status: TaskStatus
    reason: str
    calls: tuple[str, ...] = ()
    changes: tuple[ToolDifference, ...] = ()


class StepEnded(_Event):
    """A step was committed."""

    type: Literal["event_step_end"] = "event_step_end"
    step: TaskStep


class TaskEnded(_Event):
    """The task has ended: `chunks` and `seq` say how many messages each channel had.

    `usage` is what the task has used: `steps`, `tokens_in`, `tokens_out`, `cost`; `agents` what each of them has.
    """

    type: Literal["event_task_end"] = "event_task_end"
    status: TaskStatus
    reason: str
    usage: dict[str, int | float] = {}
    agents: dict[str, Spent] = {}


class StreamReset(_Event):
    """The logs were lost and begin again; the first `steps` steps stand in the history."""

    type: Literal["event_stream_reset"] = "event_stream_reset"
    steps: int


class ErrorOccurred(_Event):
    """Something went wrong that is not a step: a refused submission, for instance."""

    type: Literal["event_error"] = "event_error"
    code: str
    message: str


class UnknownEvent(Recorded):
    """A message of a newer release, of either channel: kept as it came, so that old followers go on."""

    type: str
    seq: int = 0
    generation: str = ""
    chunks: int = 0
    task_id: str = ""
    timestamp: datetime | None = None


ExecutionEvent = Annotated[
    TaskStarted
    | AgentSelected
    | AgentHandedOff
    | ToolCalled
    | SubTaskBegun
    | ToolReturned
    | ToolUnknown
    | UserSpoke
    | UserInterrupted
    | TurnRestarted
    | StatusChanged
    | StepEnded
    | TaskEnded
    | StreamReset
    | ErrorOccurred,
    Field(discriminator="type"),
]
"""An execution event: `type` names its kind."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(ExecutionEvent | StreamChunk)
_KINDS: tuple[type[Recorded], ...] = (*_Event.__subclasses__(), StreamChunk)
_KNOWN = frozenset(kind.model_fields["type"].default for kind in _KINDS)
_NUMBERED = {"seq", "generation", "chunks", "events"}


def read_message(record: dict[str, Any]) -> "AnyEvent | StreamChunk":
    """The chunk or event of one message; a kind that this release does not know is an UnknownEvent."""
    if record.get("type") not in _KNOWN:
        return UnknownEvent.model_validate(record)
    message: AnyEvent | StreamChunk = _ADAPTER.validate_python(record, context=RECORDED)
    return message


def body(message: "AnyEvent | StreamChunk") -> str:
    """The message's JSON without its numbers and opening brace: the script that numbers it adds both."""
    return message.model_dump_json(exclude=_NUMBERED)[1:]


AnyEvent = (
    TaskStarted
    | AgentSelected
    | AgentHandedOff
    | ToolCalled
    | SubTaskBegun
    | ToolReturned
    | ToolUnknown
    | UserSpoke
    | UserInterrupted
    | TurnRestarted
    | StatusChanged
    | StepEnded
    | TaskEnded
    | StreamReset
    | ErrorOccurred
    | UnknownEvent
)
