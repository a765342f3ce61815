"""One task on a board, with its leases, and what a test wants to know of it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent
from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.attempts import Attempts
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.inbox import Inbox
from roboco.ports.leases import ToolLeases, TurnClaim, TurnLeases
from roboco.ports.logs import EventLogs
from roboco.ports.rate_limits import RateLimiter, Ticket
from roboco.ports.registry import WorkerRegistry
from roboco.ports.schedule import Schedule
from roboco.ports.task_store import Commit, Decision, Phase, Snapshot, TaskStore
from tests.contract.samples import TASK, make_chain, step_after

OPERATOR_LIMITS = ModelLimits(("shared=2/100",))
"""The operator's limits of `rates` and `brief_rates`."""
LONG_LEASE = 60.0
"""Seconds of a lease that outlives every test."""
RATE_WINDOW = 0.5
"""Seconds for which what was asked of a model counts for `brief_rates`, whose end a test waits for."""
SHORT_LEASE = 0.03
"""Seconds of a lease whose end a test waits for."""


class TaskUnderTest(ABC):
    """`steps` is the history as the workspace would have it; leases of `brief_turns` and its like are SHORT.

    What is brief sees the same as what is not: a test that asks the brief ones only about what is over does not depend
    on how soon it is made.
    """

    store: TaskStore
    turns: TurnLeases
    calls: ToolLeases
    short_lease_turns: TurnLeases
    short_lease_calls: ToolLeases
    schedule: Schedule
    inbox: Inbox
    logs: EventLogs
    attempts: Attempts
    short_lease_attempts: Attempts
    dead_letters: DeadLetters
    rates: RateLimiter
    short_window_rates: RateLimiter

    def __init__(self) -> None:
        self.steps: list[TaskStep] = []

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass."""

    @abstractmethod
    def registry(self, own: str, live: float = LONG_LEASE) -> WorkerRegistry:
        """The registry of workers as the worker of this name has it."""

    @abstractmethod
    def wipe(self) -> None:
        """Lose everything, as if Redis had been emptied."""

    @abstractmethod
    def chunks(self) -> Iterable[str]:
        """The messages of the content log."""

    @abstractmethod
    def tickets(self, profile: ModelProfile, ticket: Ticket) -> set[str]:
        """The tickets of requests that the server remembers for the profile's model."""

    def create(self, count: int = 1, *events: AnyEvent) -> bool:
        """Set the task up with so many steps."""
        self.steps = make_chain(count)
        return self.store.create(TASK, self.steps, fold(self.steps), events)

    def record_decision(self, phase: Phase = Phase.TURN, *events: AnyEvent) -> int:
        """Write a choice down at the present fence: the new epoch."""
        choice = Decision(phase, TaskStatus.RUNNING, agent="writer")
        epoch = self.store.record_decision(TASK, self.snapshot.epoch, choice, events)
        assert epoch is not None
        return epoch

    def turn_assignment(self) -> TurnAssignment:
        """The order of the pending turn."""
        now = self.snapshot
        return TurnAssignment(TASK, now.seq, now.epoch, now.attempt)

    def claim(self, token: str = "me") -> TurnClaim:
        """The claim on the pending turn."""
        claim = self.turns.claim(self.turn_assignment(), token, 10)
        assert claim is not None
        return claim

    def let_claim_expire(self) -> TurnClaim:
        """A claim on the pending turn whose lease has ended."""
        claim = self.short_lease_turns.claim(self.turn_assignment(), "lost", 10)
        assert claim is not None
        self.pass_time(SHORT_LEASE)
        return claim

    def tool_assignment(self, call_id: str = "tc_1", attempt: int = 1) -> ToolAssignment:
        """The order of a call of the last step."""
        now = self.snapshot
        return ToolAssignment(TASK, now.seq - 1, now.epoch, call_id, attempt)

    def commit(self, *events: AnyEvent, text: str = "") -> bool:
        """Take over one more step at the present fence."""
        self.steps.append(step_after(self.steps, text))
        return self.store.commit(TASK, self.snapshot.epoch, Commit(self.steps[-1], fold(self.steps), events))

    def commit_with_decision(self, *events: AnyEvent) -> int | None:
        """Take over one more step at the present fence, and write a turn down with it."""
        self.steps.append(step_after(self.steps))
        commit = Commit(self.steps[-1], fold(self.steps), events[:1])
        choice = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer", routing={"rule": "next"})
        return self.store.commit_with_decision(TASK, self.snapshot.epoch, commit, choice, events[1:])

    @property
    def snapshot(self) -> Snapshot:
        """The task as the board has it."""
        snapshot = self.store.load(TASK, 100)
        assert snapshot is not None
        return snapshot

    def events(self) -> list[dict[str, Any]]:
        """The event log."""
        return [json.loads(message) for message in self.logs.events(TASK, 0)]

    def event_log(self) -> list[tuple[int, int, str]]:
        """The event log: number, chunks before it, reason."""
        return [(one["seq"], one["chunks"], one["reason"]) for one in self.events()]

    def chunk_log(self) -> list[tuple[int, int, str]]:
        """The content log: number, events before it, text."""
        return [(one["seq"], one["events"], one["text"]) for one in map(json.loads, self.chunks())]

    def generations(self) -> set[str]:
        """The generations of all messages in both logs."""
        return {one["generation"] for one in [*self.events(), *map(json.loads, self.chunks())]}
