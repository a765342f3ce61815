"""Roboco: teams of LLM agents on the Celery workers you already operate."""

from roboco.adapters.team.file import load_team, team_from
from roboco.adapters.tools.function_tool import tool
from roboco.celery import team
from roboco.client.orchestrator import Orchestrator
from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.client.task_result import TaskResult
from roboco.domain.decision.router import Route
from roboco.domain.history.history import History
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
)
from roboco.domain.history.step import TaskStep
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
    SubTaskBegun,
    TaskEnded,
    TaskStarted,
    ToolCalled,
    ToolReturned,
    ToolUnknown,
    TurnRestarted,
    UnknownEvent,
    UserInterrupted,
    UserSpoke,
)
from roboco.domain.stream.item import StepFinal, StreamItem, TextPartDelta, ToolCallItem, ToolResultItem, TypedItem
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.model_offer import ModelOffer
from roboco.domain.team.team import Team
from roboco.domain.usage import Spent
from roboco.errors import (
    Conflict,
    CorruptHistory,
    Later,
    ModelError,
    NotRunnable,
    Overloaded,
    RobocoError,
    TeamError,
    TeamFailed,
    TransientError,
    UsageError,
)
from roboco.ports import CallContext
from roboco.settings import Settings, read_settings

__all__ = [
    "AgentHandedOff",
    "AgentMessage",
    "AgentSelected",
    "AgentSessionDelta",
    "AgentSessionRecord",
    "Artifact",
    "ArtifactPart",
    "CallContext",
    "Conflict",
    "CorruptHistory",
    "ErrorOccurred",
    "ErrorPart",
    "ExecutionEvent",
    "History",
    "Later",
    "ModelError",
    "ModelOffer",
    "NotRunnable",
    "Orchestrator",
    "Overloaded",
    "Part",
    "Receipt",
    "RobocoError",
    "Route",
    "Session",
    "SessionDelta",
    "SessionGoal",
    "SessionMessage",
    "Settings",
    "Spent",
    "StatusChanged",
    "StepEnded",
    "StepFinal",
    "StreamChunk",
    "StreamItem",
    "StreamReset",
    "SubTaskBegun",
    "Task",
    "TaskEnded",
    "TaskResult",
    "TaskStarted",
    "TaskStatus",
    "TaskStep",
    "TaskSummary",
    "Team",
    "TeamError",
    "TeamFailed",
    "TextPart",
    "TextPartDelta",
    "ToolCall",
    "ToolCallItem",
    "ToolCallPart",
    "ToolCalled",
    "ToolResult",
    "ToolResultItem",
    "ToolResultPart",
    "ToolReturned",
    "ToolUnknown",
    "TransientError",
    "TurnRestarted",
    "TypedItem",
    "UnknownEvent",
    "UsageError",
    "UserInterrupted",
    "UserSpoke",
    "load_team",
    "read_settings",
    "team",
    "team_from",
    "tool",
]
