"""Roboco: teams of LLM agents on the Celery workers you already operate.

Each public name is imported at its first use, so that a health check, or a service that only submits, imports little.
`__init__.pyi` declares the same names for type checkers.
"""

import importlib
from typing import Any, Final

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "roboco.team_files.file": (
        "load_team",
        "parse_team",
    ),
    "roboco.tools.function_answer": ("AgentAnswer",),
    "roboco.tools.function_tool": ("check", "tool"),
    "roboco.celery": ("team",),
    "roboco.client.orchestrator": ("Orchestrator",),
    "roboco.client.receipt": ("Receipt",),
    "roboco.client.task": ("Task",),
    "roboco.client.task_result": ("TaskResult",),
    "roboco.domain.recorded.rehearsal": (
        "Rehearsal",
        "rehearse",
    ),
    "roboco.domain.session.agent_session": (
        "AgentMessage",
        "AgentSessionDelta",
        "AgentSessionRecord",
    ),
    "roboco.domain.stream.event": (
        "AgentHandedOff",
        "AgentSelected",
        "ErrorOccurred",
        "ExecutionEvent",
        "StatusChanged",
        "StepEnded",
        "StreamChunk",
        "StreamReset",
        "SubTaskStarted",
        "TaskEnded",
        "TaskStarted",
        "ToolCalled",
        "ToolReturned",
        "ToolUnknown",
        "TurnRestarted",
        "UnknownEvent",
        "UserInterrupted",
        "UserMessageAdded",
    ),
    "roboco.domain.history.state": ("History",),
    "roboco.domain.team.model_offer": ("ModelProfileInfo",),
    "roboco.domain.history.part": (
        "Artifact",
        "ArtifactPart",
        "ErrorPart",
        "Part",
        "TextPart",
        "ToolCall",
        "ToolCallPart",
        "ToolResult",
        "ToolResultPart",
        "UnknownPart",
    ),
    "roboco.domain.decision.action": ("Route",),
    "roboco.domain.session.session": (
        "Session",
        "SessionDelta",
        "SessionMessage",
    ),
    "roboco.domain.session.goal": ("SessionGoal",),
    "roboco.domain.usage": ("Usage",),
    "roboco.domain.status": ("TaskStatus",),
    "roboco.domain.history.step": ("TaskStep",),
    "roboco.domain.stream.item": (
        "ReasoningDelta",
        "StepFinal",
        "StreamItem",
        "TextPartDelta",
        "ToolCallItem",
        "ToolResultItem",
        "TypedItem",
    ),
    "roboco.domain.task_entry": ("TaskEntry",),
    "roboco.domain.task_summary": ("TaskSummary",),
    "roboco.domain.team.team": ("Team",),
    "roboco.errors": (
        "AlreadyEnded",
        "Conflict",
        "CorruptHistory",
        "Erased",
        "Forbidden",
        "RetryLater",
        "ModelError",
        "NotFound",
        "NotRunnable",
        "Overloaded",
        "RobocoError",
        "InvalidTeam",
        "StateConflict",
        "TaskFailed",
        "TransientError",
        "UsageError",
    ),
    "roboco.ports.file": ("File",),
    "roboco.ports.task_index": ("TaskPage",),
    "roboco.ports.tools": ("ToolContext",),
    "roboco.settings": (
        "Settings",
        "load_settings",
    ),
}
"""The public names of each module."""
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Return a public name, imported at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'roboco' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
