"""The input and the output of `decide`: a situation, and an action. The coordinator executes exactly one at a time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from roboco.domain.history.part import ErrorPart, Part, ToolCall, ToolOutcome
from roboco.domain.history.step import ORCHESTRATOR
from roboco.domain.inbox.item import ApprovalDecision, Interrupt, Item, LimitChange, Stop, UserMessage
from roboco.domain.status import TaskStatus

ATTEMPTS = "attempts"
"""The code of the error of exhausted attempts."""
INTERRUPTED = "the user interrupted the work"


@dataclass(frozen=True)
class Situation:
    """The inputs of a decision beside the history."""

    inbox: tuple[Item, ...] = ()
    """The inbox items in order."""
    outcomes: Mapping[str, ToolOutcome] = field(default_factory=dict)
    """The outcomes so far of the last step's calls, by id."""
    seconds: float = 0.0
    """Seconds since the task was submitted or forked."""
    give_up_reason: str | None = None
    """The reason why no further attempt is made at the pending turn or at the task, or None."""
    sub_task: bool = False
    """True for a sub-task. It has no user: instead of waiting for a message it ends."""
    pending_turn: bool = False
    """True if a turn is recorded whose step is not committed."""

    @property
    def stop(self) -> Stop | None:
        """Return the user's request to end the task, or None."""
        return next((item for item in self.inbox if isinstance(item, Stop)), None)

    @property
    def interruption(self) -> UserMessage | Interrupt | None:
        """Return the oldest item that interrupts, with or without a message, or None."""
        items = (item for item in self.inbox if isinstance(item, UserMessage | Interrupt))
        return next((item for item in items if isinstance(item, Interrupt) or item.interrupts), None)

    def next_user_item(self, held: bool) -> UserMessage | Interrupt | None:
        """Return the message or interruption that becomes the next step, or None. `held` keeps queued messages waiting.

        Messages that interrupt precede queued ones. But if the user has interrupted the work without a message, the
        earlier messages become steps first, in their order, so that the task waits afterwards.
        """
        items = [item for item in self.inbox if isinstance(item, UserMessage | Interrupt)]
        if any(isinstance(item, Interrupt) for item in items):
            return items[0]
        queued = items[0] if items and not held else None
        return self.interruption or queued

    @property
    def limit_change(self) -> LimitChange | None:
        """Return the oldest change of limits, or None."""
        return next((item for item in self.inbox if isinstance(item, LimitChange)), None)

    @property
    def abort_reason(self) -> str | None:
        """Return the reason why the result of the running work is no longer needed, or None."""
        if self.stop is not None:
            return self.stop.reason
        expired = next((item for item in self.inbox if isinstance(item, ApprovalDecision) and item.ends_task), None)
        if self.give_up_reason is None and expired is not None:
            return expired.reason
        return self.give_up_reason or (INTERRUPTED if self.interruption else None)


WORKER_LOST_RULE = "worker_lost"
"""The rule of a route to no agent, of a router whose workers were lost."""


@dataclass(frozen=True)
class Route:
    """The next agent, "USER" or "END", with the rule that chose it and the candidates."""

    to: str
    router: str
    rule: str
    reason: str
    candidates: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the route as JSON for a step's `metadata.routing`."""
        return asdict(self) | {"candidates": list(self.candidates)}


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
