"""Roboco: teams of LLM agents on the Celery workers you already operate."""

from roboco.celery import team
from roboco.client.orchestrator import Orchestrator
from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.client.task_result import TaskResult
from roboco.domain.decision.action import Route
from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    ErrorPart,
    Part,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    UnknownPart,
)
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep
from roboco.domain.recorded.rehearsal import Rehearsal, rehearse
from roboco.domain.session.agent_session import AgentMessage, AgentSessionDelta, AgentSessionRecord
from roboco.domain.session.goal import SessionGoal
from roboco.domain.session.session import Session, SessionDelta, SessionMessage
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import (
    AgentHandedOff,
    AgentSelected,
    ErrorOccurred,
    ExecutionEvent,
    StatusChanged,
    StepEnded,
    StreamChunk,
    StreamReset,
    SubTaskStarted,
    TaskEnded,
    TaskStarted,
    ToolCalled,
    ToolReturned,
    ToolUnknown,
    TurnRestarted,
    UnknownEvent,
    UserInterrupted,
    UserMessageAdded,
)
from roboco.domain.stream.item import (
    ReasoningDelta,
    StepFinal,
    StreamItem,
    TextPartDelta,
    ToolCallItem,
    ToolResultItem,
    TypedItem,
)
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.model_offer import ModelProfileInfo
from roboco.domain.team.team import Team
from roboco.domain.usage import Usage
from roboco.errors import (
    AlreadyEnded,
    Conflict,
    CorruptHistory,
    Erased,
    Forbidden,
    InvalidTeam,
    ModelError,
    NotFound,
    NotRunnable,
    Overloaded,
    RetryLater,
    RobocoError,
    StateConflict,
    TaskFailed,
    TransientError,
    UsageError,
)
from roboco.ports.file import File
from roboco.ports.task_index import TaskPage
from roboco.ports.tools import ToolContext
from roboco.settings import Settings, load_settings
from roboco.team_files.file import load_team, parse_team
from roboco.tools.function_answer import AgentAnswer
from roboco.tools.function_tool import check, tool

__all__ = [
    "AgentAnswer",
    "AgentHandedOff",
    "AgentMessage",
    "AgentSelected",
    "AgentSessionDelta",
    "AgentSessionRecord",
    "AlreadyEnded",
    "Artifact",
    "ArtifactPart",
    "Conflict",
    "CorruptHistory",
    "Erased",
    "ErrorOccurred",
    "ErrorPart",
    "ExecutionEvent",
    "File",
    "Forbidden",
    "History",
    "InvalidTeam",
    "ModelError",
    "ModelProfileInfo",
    "NotFound",
    "NotRunnable",
    "Orchestrator",
    "Overloaded",
    "Part",
    "ReasoningDelta",
    "Receipt",
    "Rehearsal",
    "RetryLater",
    "RobocoError",
    "Route",
    "Session",
    "SessionDelta",
    "SessionGoal",
    "SessionMessage",
    "Settings",
    "StateConflict",
    "StatusChanged",
    "StepEnded",
    "StepFinal",
    "StreamChunk",
    "StreamItem",
    "StreamReset",
    "SubTaskStarted",
    "Task",
    "TaskEnded",
    "TaskEntry",
    "TaskFailed",
    "TaskPage",
    "TaskResult",
    "TaskStarted",
    "TaskStatus",
    "TaskStep",
    "TaskSummary",
    "Team",
    "TextPart",
    "TextPartDelta",
    "ToolCall",
    "ToolCallItem",
    "ToolCallPart",
    "ToolCalled",
    "ToolContext",
    "ToolResult",
    "ToolResultItem",
    "ToolResultPart",
    "ToolReturned",
    "ToolUnknown",
    "TransientError",
    "TurnRestarted",
    "TypedItem",
    "UnknownEvent",
    "UnknownPart",
    "Usage",
    "UsageError",
    "UserInterrupted",
    "UserMessageAdded",
    "check",
    "load_settings",
    "load_team",
    "parse_team",
    "rehearse",
    "team",
    "tool",
]
