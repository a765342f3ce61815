"""Actions: what `decide` may ask for. The coordinator carries out exactly one at a time."""

from dataclasses import dataclass, field
from typing import Any

from roboco.domain.decision.router import Route
from roboco.domain.history.part import Part, ToolCall
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.status import TaskStatus


@dataclass(frozen=True)
class StartTurn:
    """Let the agent make one model call; `handed_off_by` names the agent whose hand-off led here."""

    agent: str
    route: Route
    handed_off_by: str | None = None


@dataclass(frozen=True)
class CallTools:
    """Have these calls of the last step run."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class AppendStep:
    """Commit a step that needs no worker.

    `item_ids` are what it takes over from the inbox; `told_now` are results that no tool worker has told; `given_up`
    are calls for whose sub-tasks nobody waits any more.
    """

    agent_name: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    item_ids: tuple[str, ...] = ()
    told_now: tuple[Outcome, ...] = ()
    given_up: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Hold no worker until something arrives from outside; `calls` are the ids of those that are waited for."""

    status: TaskStatus
    route: Route
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """The task is over."""

    status: TaskStatus
    reason: str


Action = StartTurn | CallTools | AppendStep | Wait | End
