"""Snapshot: the state of a task in Redis at one moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.step import TaskStep, priority_of
from roboco.domain.history.task_state import TaskState
from roboco.domain.status import TaskStatus
from roboco.ports.assignment import ToolAssignment, TurnAssignment

COORDINATOR_TAIL_LENGTH = 64
"""The number of newest steps that the coordinator loads. Routers see no more steps of an agent's current run."""


class Phase(StrEnum):
    """The state of a task between two commits: the kind of its last recorded decision."""

    UNDECIDED = "idle"
    TURN = "turn"
    TOOLS = "tools"
    WAIT = "wait"
    END = "end"


@dataclass(frozen=True)
class CallState:
    """A dispatched tool call."""

    attempt: int = 1
    """The attempt at the call, from 1."""
    claimed: bool = False
    """True if a worker has claimed that attempt."""
    lease_left: float = 0.0
    """Seconds that are left of a live lease, or 0."""
    outcome: ToolOutcome | None = None
    """The outcome, or None if there is none yet."""
    waits: bool = False
    """True if it was released with a reason, as one that is switched off: no message of it is under way."""


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of unfinished replies of a model, as an estimate."""

    tokens_in: int = 0
    tokens_out: int = 0

    def plus(self, more: "TokenUsage") -> "TokenUsage":
        """Return the sum of both."""
        return TokenUsage(self.tokens_in + more.tokens_in, self.tokens_out + more.tokens_out)


@dataclass(frozen=True)
class TurnProgress:
    """How far the model call of a running turn has come, as its worker last recorded it."""

    model: str
    """The name of the model, and the address of its server."""
    request: int
    """The number of the request, from 1."""
    requests: int
    """The number of requests that fail without a text until the call fails."""
    heard_at: float
    """When the model last sent anything, or when the request was sent, in Unix seconds."""
    limit: float
    """Seconds of silence after which the request fails."""
    reasoning: int = 0
    """Tokens of reasoning so far, as an estimate."""
    kept: str = ""
    """Why the workspace does not take the whole answer, which the worker keeps, or ""."""

    def to_json(self) -> str:
        """Return the record of the progress."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> "TurnProgress | None":
        """Return the progress of its record, or None if this release cannot read that."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True)
class TaskPosition:
    """Where a task is: its fence, its next step and the pending decision."""

    epoch: int
    """The fence."""
    seq: int
    """The position of the next step."""
    phase: Phase
    """The kind of the pending decision."""
    status: TaskStatus
    reason: str = ""
    """The reason for the status or the wait."""
    agent: str = ""
    """The agent of the pending turn. In a wait, the agent that is charged for unfinished attempts, if any."""
    routing: dict[str, Any] = field(default_factory=dict)
    """The record of the route that led to the pending turn."""
    dispatched_at: float = 0.0
    """The time of the last dispatch of the pending decision, in Unix seconds."""
    redeliveries: int = 0
    """The number of redeliveries: how often the sweeper has found the pending decision unclaimed."""


@dataclass(frozen=True)
class TurnAttempt:
    """The present attempt at the pending turn."""

    number: int = 1
    """The attempt, from 1."""
    handovers: int = 0
    """How many of the attempts before it were handed over by workers that shut down. They do not count as failed."""
    claimed: bool = False
    """True if a worker has claimed the attempt."""
    lease_left: float = 0.0
    """Seconds that are left of a live lease, or 0."""
    cancel_requested_for: float | None = None
    """Seconds since cancellation of the pending turn or calls was requested, or None. Only `load` sets it."""
    deferred_for: float | None = None
    """Seconds until a deferred turn may be claimed again, or None. Only `load` sets it."""
    unfinished_usage: TokenUsage = TokenUsage()
    """The tokens of this attempt and of earlier ones at the same step, as far as their replies had begun."""
    progress: TurnProgress | None = None
    """The progress of the claimed turn, or None if its worker has recorded none yet."""

    @property
    def counted(self) -> int:
        """The number of the attempt, from 1, without those that workers handed over."""
        return self.number - self.handovers


@dataclass(frozen=True)
class Logs:
    """The event log and the content log of a task."""

    generation: str = ""
    """The generation of the logs, or "" if the store does not have the task yet."""
    events: int = 0
    """The number of events of this generation."""
    first_event: int = 1
    """The number of the first event that is not trimmed from the log."""
    archived_event: int = 0
    """The number of the last event that is archived in the workspace, or 0."""
    event_bytes: int = 0
    """The size of the events in the log, in bytes."""
    chunks: int = 0
    """The number of chunks of this generation."""
    attempt_chunks: int = 0
    """The number of chunks of the present attempt."""


@dataclass(frozen=True)
class Refusals:
    """Refusals of the pending turn by its model's server."""

    count: int = 0
    """How often it has refused the turn."""
    seconds: float = 0.0
    """Seconds from its first to its latest refusal."""


@dataclass(frozen=True)
class HeldSteps:
    """The steps of a task that the store keeps."""

    first: TaskStep
    """The first step."""
    tail: tuple[TaskStep, ...]
    """The newest steps, oldest first; at least the last one. The store keeps a bounded number of bytes."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a task in the store at one moment."""

    position: TaskPosition
    attempt: TurnAttempt
    logs: Logs
    refusals: Refusals
    state: TaskState
    """The state of the history."""
    steps: HeldSteps
    item_ids: tuple[str, ...]
    """The ids of the items in the inbox."""
    calls: Mapping[str, CallState]
    """The dispatched calls, by id."""

    @classmethod
    def new(cls, steps: Sequence[TaskStep], state: TaskState) -> "Snapshot":
        """Return a task with these first steps that the store does not have yet: it has no fence and no logs."""
        return cls(
            position=TaskPosition(epoch=0, seq=state.steps, phase=Phase.UNDECIDED, status=TaskStatus.QUEUED),
            attempt=TurnAttempt(),
            logs=Logs(),
            refusals=Refusals(),
            state=state,
            steps=HeldSteps(steps[0], tuple(steps[-COORDINATOR_TAIL_LENGTH:])),
            item_ids=(),
            calls={},
        )

    def turn_order(self, task_id: str, epoch: int | None = None, attempt: int | None = None) -> TurnAssignment:
        """Return the assignment of the present attempt at the pending turn; `epoch` and `attempt` name another one."""
        epoch = self.position.epoch if epoch is None else epoch
        attempt = self.attempt.number if attempt is None else attempt
        return TurnAssignment(task_id, self.position.seq, epoch, attempt, priority_of(self.steps.first))

    def call_order(self, task_id: str, call_id: str, epoch: int | None = None) -> ToolAssignment:
        """Return the assignment of a call of the last step, with this fence or the present one."""
        epoch = self.position.epoch if epoch is None else epoch
        attempt = self.calls.get(call_id, CallState()).attempt
        return ToolAssignment(task_id, self.position.seq - 1, epoch, call_id, attempt, priority_of(self.steps.first))

    def after_decision(self, epoch: int, decision: "Decision") -> "Snapshot":
        """Return the task with this decision, which was recorded under this fence. The counters of its logs remain."""
        position = TaskPosition(
            epoch=epoch,
            seq=self.position.seq,
            phase=decision.phase,
            status=decision.status,
            reason=decision.reason,
            agent=decision.agent,
            routing=dict(decision.routing or {}),
            dispatched_at=self.position.dispatched_at,
        )
        return replace(
            self,
            position=position,
            attempt=TurnAttempt(unfinished_usage=self.attempt.unfinished_usage),
            logs=replace(self.logs, attempt_chunks=0),
            refusals=Refusals(),
            calls=self.calls if decision.phase in (Phase.WAIT, Phase.TOOLS) else {},
        )


@dataclass(frozen=True)
class Decision:
    """The next action of the task. It is recorded before it is dispatched."""

    phase: Phase
    status: TaskStatus
    reason: str = ""
    agent: str = ""
    routing: Mapping[str, Any] | None = None
    seen_item_ids: frozenset[str] | None = None
    """The ids of the inbox items that the decision considered, or None.

    If the inbox contains any other item, the decision is void.
    """
    instance_id: str | None = None
    """The Redis instance in which the decision was made, or None.

    Another instance may have lost items, so the decision is void there.
    """
