"""Roboco: teams of LLM agents on the Celery workers you already operate."""

from roboco.adapters.team_file import load_team, team_from
from roboco.adapters.tool import tool
from roboco.celery import team
from roboco.client.orchestrator import Orchestrator
from roboco.client.receipt import Receipt
from roboco.client.task import Task, TaskResult
from roboco.domain.event import ExecutionEvent, StreamChunk
from roboco.domain.history import History
from roboco.domain.model_offer import ModelOffer
from roboco.domain.router import Route
from roboco.domain.session import Session, SessionDelta, SessionMessage
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep
from roboco.domain.summary import TaskSummary
from roboco.domain.team import Team
from roboco.domain.view import StreamItem
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
    "CallContext",
    "Conflict",
    "CorruptHistory",
    "ExecutionEvent",
    "History",
    "Later",
    "ModelError",
    "ModelOffer",
    "NotRunnable",
    "Orchestrator",
    "Overloaded",
    "Receipt",
    "RobocoError",
    "Route",
    "Session",
    "SessionDelta",
    "SessionMessage",
    "Settings",
    "StreamChunk",
    "StreamItem",
    "Task",
    "TaskResult",
    "TaskStatus",
    "TaskStep",
    "TaskSummary",
    "Team",
    "TeamError",
    "TeamFailed",
    "TransientError",
    "UsageError",
    "load_team",
    "read_settings",
    "team",
    "team_from",
    "tool",
]
