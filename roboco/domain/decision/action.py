"""Actions: the possible results of `decide`. The coordinator executes exactly one at a time."""

from dataclasses import dataclass, field
from typing import Any

from roboco.domain.decision.route import Route
from roboco.domain.history.part import ErrorPart, Part, ToolCall
from roboco.domain.history.step import ORCHESTRATOR
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.inbox.item import Item
from roboco.domain.status import TaskStatus


@dataclass(frozen=True)
class StartTurn:
    """Let the agent make one model call."""

    agent: str
    route: Route
    handed_off_by: str | None = None
    """The agent whose hand-off led to this turn, or None."""


@dataclass(frozen=True)
class CallTools:
    """Run these calls of the last step."""

    calls: tuple[ToolCall, ...]
    waits: str = ""
    """The reason of the wait for a person who must approve other calls of the step, or ''."""


@dataclass(frozen=True)
class AppendStep:
    """Commit a step that needs no worker."""

    agent_name: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    item_ids: tuple[str, ...] = ()
    """The inbox items that the step applies."""
    unpublished_results: tuple[ToolOutcome, ...] = ()
    """The results in the step for which no tools worker has published an event."""
    abandoned: tuple[ToolCall, ...] = ()
    """The calls whose sub-tasks, and Celery tasks of a shop, are abandoned."""


@dataclass(frozen=True)
class Wait:
    """Occupy no worker until an inbox item arrives."""

    status: TaskStatus
    route: Route
    calls: tuple[str, ...] = ()
    """The ids of the calls that the task waits for."""
    by: str | None = None
    """The identity of the caller that has paused the task, or None."""


@dataclass(frozen=True)
class End:
    """End the task."""

    status: TaskStatus
    reason: str


Action = StartTurn | CallTools | AppendStep | Wait | End


def error_step(code: str, message: str, item: Item | None = None) -> AppendStep:
    """Return the step with this error, which ends the task. `item` is the user's request that it applies."""
    metadata, item_ids = ({}, ()) if item is None else (item.origin(), (item.item_id,))
    return AppendStep(ORCHESTRATOR, (ErrorPart(code=code, message=message),), metadata, item_ids)
