"""Inbox items: input for a task from outside that is not applied yet."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from roboco.domain.history.part import Artifact, ToolOutcome
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.domain.team.approval import OnExpiry


class _Item(RecordModel):
    item_id: str
    created_at: datetime
    applied_at_seq: int | None = None
    by: RecordedCaller = None
    """The identity of the caller that sent the item, or None. The first one that was stored counts."""

    def origin(self) -> dict[str, Any]:
        """Return the id of the item and its caller as metadata of the step that applies it."""
        return {"item_id": self.item_id} | caller_metadata(self.by)


def caller_metadata(by: str | None) -> dict[str, Any]:
    """Return the identity of a caller as metadata of a step, or {} if there is none."""
    return {} if by is None else {"by": by}


class UserMessage(_Item):
    """A message of the user."""

    kind: Literal["message"] = "message"
    text: str
    agent: str | None = None
    """The agent that answers the message, or None for the router's choice."""
    interrupts: bool = False
    """True if the message interrupts the running work."""
    attachments: dict[str, Any] = {}
    """Goals, client tools and the like. They become metadata of the message's step."""
    artifacts: tuple[Artifact, ...] = ()
    """Files. They become parts of the message's step."""


class Interrupt(_Item):
    """The user's request to end the running work, without a message. Then the task waits for its user."""

    kind: Literal["interrupt"] = "interrupt"


class Stop(_Item):
    """The user's request to end the task now."""

    kind: Literal["stop"] = "stop"
    reason: str = "stopped by the user"


class Pause(_Item):
    """A pause: no step from position `until` on begins.

    A user has paused the task, or the model of the agent `outage` was unreachable for too long.
    """

    kind: Literal["hold"] = "hold"
    until: int = 0
    supersedes: tuple[str, ...] = ()
    """The ids of the pauses that this one replaces."""
    outage: str = ""
    reason: str = "paused by the user"
    """The cause of the pause."""

    def blocks(self, seq: int) -> bool:
        """Return True if the step at this position must not begin."""
        return self.until <= seq

    @property
    def by_user(self) -> bool:
        """Return True if the user has paused the task."""
        return self.outage == ""

    @property
    def status_reason(self) -> str:
        """Return the reason of the pause for the task's status. It names the caller that has paused the task."""
        return self.reason if self.by is None or not self.by_user else f"paused by {self.by}"


class Resume(_Item):
    """The user's request to end pauses."""

    kind: Literal["resume"] = "resume"
    supersedes: tuple[str, ...] = ()
    """The ids of the pauses that end."""


class ExternalToolResult(_Item):
    """The outcome of a call from outside."""

    kind: Literal["answer"] = "answer"
    call_id: str
    at_seq: int
    """The position of the step with the call."""
    outcome: ToolOutcome
    answer_form: dict[str, Any] = {}
    """The form that the answer after the results must have, in place of the one before; {} if that stays."""


class ApprovalDecision(_Item):
    """A person's decision on a call that needs approval."""

    kind: Literal["verdict"] = "verdict"
    call_id: str
    at_seq: int
    """The position of the step with the call."""
    approved: bool
    reason: str = ""
    args: dict[str, Any] | None = None
    """The approved arguments if they differ from the requested ones, else None."""
    expired: OnExpiry | None = None
    """The consequence that the team has declared, if no person has decided in time; None for a person's decision."""

    @property
    def ends_task(self) -> bool:
        """Return True if the task ends because no person has decided."""
        return self.expired in ("stop", "fail")


class UnknownResolution(_Item):
    """A person's decision on a tool call with an unknown outcome."""

    kind: Literal["resolution"] = "resolution"
    call_id: str
    at_seq: int
    """The position of the step with the call."""
    happened: bool
    """True if the call had its effect."""
    result: Any = None
    """The result of the call."""


class RetryRequest(_Item):
    """The request with which a user continued a failed task in its own history, in an earlier release."""

    kind: Literal["retry"] = "retry"
    reason: str = ""
    limits: dict[str, Any] = {}
    """The fields of `LimitOverrides` that replace limits of the task."""


class LimitChange(_Item):
    """The user's limits that replace those of the task."""

    kind: Literal["raise"] = "raise"
    limits: dict[str, Any]
    """The fields of `LimitOverrides` that are set."""


Item = (
    UserMessage
    | Interrupt
    | Stop
    | Pause
    | Resume
    | ExternalToolResult
    | ApprovalDecision
    | UnknownResolution
    | LimitChange
    | RetryRequest
)
_ADAPTER: TypeAdapter[Item] = TypeAdapter(Annotated[Item, Field(discriminator="kind")])


def parse_item(data: bytes | str) -> Item:
    """Return the item of one stored file."""
    return _ADAPTER.validate_json(data)


def interrupts_work(item: Item) -> bool:
    """Return True if the item interrupts the running work."""
    match item:
        case UserMessage():
            return item.interrupts
        case ApprovalDecision():
            return item.ends_task
        case _:
            return isinstance(item, Stop | Interrupt)


def is_paused(inbox: Iterable[Item], seq: int) -> bool:
    """Return True if the step at this position must not begin."""
    return any(isinstance(item, Pause) and item.blocks(seq) for item in inbox)


def blocking_pause(inbox: Iterable[Item], seq: int) -> Pause | None:
    """Return the pause that blocks the step at this position, or None. That of a user takes precedence."""
    holds = [item for item in inbox if isinstance(item, Pause) and item.blocks(seq)]
    return min(holds, key=lambda item: not item.by_user, default=None)


def resuming_caller(inbox: Iterable[Item]) -> str | None:
    """Return the caller of the newest item that lets a paused task continue, or None."""
    items = [item for item in inbox if isinstance(item, Resume) or (isinstance(item, Pause) and item.until > 0)]
    return items[-1].by if items else None


def superseded(inbox: Iterable[Item]) -> tuple[str, ...]:
    """Return the ids of superseded pauses, followed by the resume items that superseded them.

    Some of these pauses may not be in the inbox yet. They have no effect when they arrive.
    """
    items = list(inbox)
    ends = {item_id: None for item in items if isinstance(item, Pause | Resume) for item_id in item.supersedes}
    return (*ends, *(item.item_id for item in items if isinstance(item, Resume)))
