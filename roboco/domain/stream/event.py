"""Live messages of a task: chunks on the content channel, events on the execution channel.

Both carry `seq` (from 1, contiguous per channel), `generation` (of the logs: a new one begins after a loss in Redis)
and the last number of the other channel (`events` in a chunk, `chunks` in an event). From these a follower merges both
channels in the order in which the messages were written. The script that numbers a message adds these four fields to
`unnumbered_json`, which contains all others. A chunk or event of a producer needs the fields of document 001 alone.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.history.step import TaskStep
from roboco.domain.schema import RECORD_CONTEXT, RecordedCaller, RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_listing import ToolDifference
from roboco.domain.usage import Usage


class StreamChunk(RecordModel):
    """A piece of text, as the model wrote it."""

    type: Literal["content_chunk"] = "content_chunk"
    seq: int = 0
    generation: str = ""
    events: int = 0
    task_id: str = ""
    step_id: str = ""
    agent_name: str = ""
    attempt: int = 1
    """The attempt at the turn, from 1."""
    text: str


class ReasoningChunk(StreamChunk):
    """A piece of reasoning, as the model wrote it. Only turns whose profile says `reasoning: stream` have these."""

    type: Literal["reasoning_chunk"] = "reasoning_chunk"  # type: ignore[assignment]


class _Event(RecordModel):
    seq: int = 0
    generation: str = ""
    chunks: int = 0
    task_id: str = ""
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))


class TaskStarted(_Event):
    """The task was accepted."""

    type: Literal["event_task_start"] = "event_task_start"
    team: str = ""


class AgentSelected(_Event):
    """The router chose the next agent."""

    type: Literal["event_agent_select"] = "event_agent_select"
    agent_name: str
    step_id: str
    """The step to which the turn leads."""
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
    step_id: str = ""
    agent_name: str = ""
    tool_call: ToolCall


class SubTaskStarted(_Event):
    """A tool call delegated its work to another team."""

    type: Literal["event_sub_task"] = "event_sub_task"
    tool_call_id: str
    sub_task_id: str
    """The task that does the work."""
    team: str


class ToolReturned(_Event):
    """A tool call has its result."""

    type: Literal["event_tool_result"] = "event_tool_result"
    tool_name: str = ""
    tool_result: ToolResult


class ToolUnknown(_Event):
    """It is unknown whether a tool call had its effect. The task waits until a person resolves it."""

    type: Literal["event_tool_unknown"] = "event_tool_unknown"
    tool_name: str
    tool_call_id: str
    reason: str


class UserMessageAdded(_Event):
    """A message of the user became a step."""

    type: Literal["event_user_message"] = "event_user_message"
    step_id: str
    text: str
    by: RecordedCaller = None
    """The caller that sent the message, if it was named."""


class UserInterrupted(_Event):
    """The user stopped or interrupted the work."""

    type: Literal["event_user_interrupt"] = "event_user_interrupt"
    reason: str
    item_id: str = ""
    """The inbox item of the request."""
    by: RecordedCaller = None
    """The caller that sent the request, if it was named."""
    receipt: dict[str, Any] = {}
    """The times of the request, of its receipt by the worker and of the closing of the model's connection.

    It also has the number of chunks that followed. It is empty if no agent was streaming.
    """


class TurnRestarted(_Event):
    """A turn restarts as `attempt`: the text of earlier attempts is void."""

    type: Literal["event_turn_restart"] = "event_turn_restart"
    step_id: str
    attempt: int
    reason: str
    replaced: bool = False
    """True if this attempt is not made: a step that is not an agent's replaces the turn."""


class StatusChanged(_Event):
    """The task has a new status."""

    type: Literal["event_status"] = "event_status"
    status: TaskStatus
    reason: str
    calls: tuple[str, ...] = ()
    """The ids of tool calls that wait for an answer or approval."""
    changes: tuple[ToolDifference, ...] = ()
    """The changed tools of the first of these calls, with a bounded excerpt of each text."""
    by: RecordedCaller = None
    """The caller that paused the task, or let it continue, if it was named."""


class StepEnded(_Event):
    """A step was committed."""

    type: Literal["event_step_end"] = "event_step_end"
    step: TaskStep


class TaskEnded(_Event):
    """The task has ended. `chunks` and `seq` are the numbers of messages of both channels."""

    type: Literal["event_task_end"] = "event_task_end"
    status: TaskStatus
    reason: str
    usage: dict[str, int | float] = {}
    """The usage of the task: `steps`, `tokens_in`, `tokens_out`, `cost`."""
    agents: dict[str, Usage] = {}
    """The usage of each agent."""


class StreamReset(_Event):
    """The logs were lost and start again."""

    type: Literal["event_stream_reset"] = "event_stream_reset"
    steps: int
    """The number of steps that are in the history."""


class ErrorOccurred(_Event):
    """An error that is not a step, for instance a refused submission."""

    type: Literal["event_error"] = "event_error"
    code: str
    message: str


class UnknownEvent(RecordModel):
    """A message of a newer release, of either channel. It is passed on unchanged, so that old followers continue."""

    type: str
    seq: int = 0
    generation: str = ""
    chunks: int = 0
    task_id: str = ""
    timestamp: datetime | None = None


PassedEvent = (
    TaskStarted
    | AgentSelected
    | AgentHandedOff
    | SubTaskStarted
    | ToolUnknown
    | UserMessageAdded
    | UserInterrupted
    | TurnRestarted
    | StatusChanged
    | TaskEnded
    | StreamReset
    | ErrorOccurred
)
"""An event that is an item of the merged stream as it is."""
_KnownEvent = PassedEvent | ToolCalled | ToolReturned | StepEnded
ExecutionEvent = Annotated[_KnownEvent, Field(discriminator="type")]
"""An execution event: `type` names its kind."""
AnyEvent = _KnownEvent | UnknownEvent

_ADAPTER: TypeAdapter[Any] = TypeAdapter(ExecutionEvent | StreamChunk | ReasoningChunk)
_MESSAGE_TYPES: tuple[type[RecordModel], ...] = (*_Event.__subclasses__(), StreamChunk, ReasoningChunk)
_KNOWN_TYPES = frozenset(kind.model_fields["type"].default for kind in _MESSAGE_TYPES)
MAX_LOGGED_BYTES = 16 * 1024
"""The largest event in a log, in bytes of its JSON, if it repeats a step: a larger one refers to the step."""
_NUMBER_FIELDS = {"seq", "generation", "chunks", "events"}


def parse_stream_message(record: dict[str, Any]) -> AnyEvent | StreamChunk:
    """Return the chunk or event of one message; an UnknownEvent if this release does not know its type."""
    if record.get("type") not in _KNOWN_TYPES:
        return UnknownEvent.model_validate(record)
    message: AnyEvent | StreamChunk = _ADAPTER.validate_python(record, context=RECORD_CONTEXT)
    return message


def unnumbered_json(message: AnyEvent | StreamChunk, step_seq: int | None = None) -> str:
    """Return the message's JSON without its numbers and opening brace. The script that numbers it adds both.

    If the message is large and repeats the step at `step_seq`, it refers to the step: `from_stored` inserts it again.
    """
    body = message.model_dump_json(exclude=_NUMBER_FIELDS)[1:]
    if step_seq is None or len(body.encode()) <= MAX_LOGGED_BYTES:
        return body
    match message:
        case StepEnded():
            left_out: dict[str, Any] = {"step": True}
        case UserMessageAdded():
            left_out = {"text": True}
        case ToolCalled():
            left_out = {"tool_call": {"args": True}}
        case _:
            return body
    numbers = dict.fromkeys(_NUMBER_FIELDS, True)
    return f'{message.model_dump_json(exclude=numbers | left_out)[1:-1]},"step_seq":{step_seq}}}'
