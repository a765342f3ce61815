"""One task on one implementation of the ports, with commands and readings that tests share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent
from roboco.domain.team.model_profile import ModelLimits, ModelProfile
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.lease_renewals import AttemptLease, LeaseStatus
from roboco.ports.leases import Leases, TurnClaim
from roboco.ports.logs import EventLogs
from roboco.ports.rate_limits import Queued, RateLimiter, Ticket
from roboco.ports.registry import WorkerRegistry
from roboco.ports.schedule import Schedule
from roboco.ports.snapshot import Decision, Phase, Snapshot
from roboco.ports.task_store import Commit, TaskStore
from roboco.redis.leases import RedisLeaseRenewals
from tests.contract.samples import TASK, make_chain, step_after
from tests.support.memory_ports.leases import MemoryLeaseRenewals

OPERATOR_LIMITS = ModelLimits(("shared=2/100",))
"""The operator's limits of `rates` and `short_window_rates`."""
LONG_LEASE = 60.0
"""Seconds of a lease that does not expire within a test."""
RATE_SLOT = 0.01
"""Seconds of a slot of the rate limiters."""
RATE_WINDOW = 0.5
"""Seconds of the window of `short_window_rates`, whose end a test waits for."""
SHORT_LEASE = 0.03
"""Seconds of a lease that a test lets expire."""


def wait_of(rates: RateLimiter, profile: ModelProfile, ticket: Ticket, tokens: int) -> float:
    """Return the seconds for which the request is queued, or 0.0 if it is admitted."""
    admission = rates.reserve(profile, ticket, tokens)
    return admission.seconds if isinstance(admission, Queued) else 0.0


class TaskUnderTest(ABC):
    """A task, and the ports through which a test changes and reads it.

    The ports with a short lease or window share their data with the others. A test uses them only for leases and
    windows that have ended; so its result does not depend on its speed.
    """

    store: TaskStore
    leases: Leases
    short_lease: Leases
    renewals: RedisLeaseRenewals | MemoryLeaseRenewals
    schedule: Schedule
    logs: EventLogs
    dead_letters: DeadLetters
    rates: RateLimiter
    short_window_rates: RateLimiter

    def __init__(self) -> None:
        self.steps: list[TaskStep] = []
        """The history as the workspace would hold it."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let these seconds pass."""

    @abstractmethod
    def registry(self, node_name: str, lifetime: float = LONG_LEASE) -> WorkerRegistry:
        """Return the registry of the worker with this node name; a worker is live for `lifetime` seconds."""

    @abstractmethod
    def wipe(self) -> None:
        """Remove all data, as if Redis had been emptied."""

    @abstractmethod
    def chunks(self) -> Iterable[str]:
        """Return the messages of the content log."""

    def create(self, count: int = 1, *events: AnyEvent) -> bool:
        """Create the task with this number of steps."""
        self.steps = make_chain(count)
        return self.store.create(TASK, self.steps, fold(self.steps), events)

    def record_decision(self, phase: Phase = Phase.TURN, *events: AnyEvent) -> int:
        """Record a decision at the current fence. Return the new epoch."""
        decision = Decision(phase, TaskStatus.RUNNING, agent="writer")
        epoch = self.store.record_decision(TASK, self.snapshot.position.epoch, decision, events)
        assert epoch is not None
        return epoch

    def turn_assignment(self) -> TurnAssignment:
        """Return the assignment of the pending turn."""
        now = self.snapshot
        return TurnAssignment(TASK, now.position.seq, now.position.epoch, now.attempt.number)

    def claim(self, token: str = "me") -> TurnClaim:
        """Claim the pending turn."""
        claim = self.leases.claim_turn(self.turn_assignment(), token, 10)
        assert claim is not None
        return claim

    def tool_assignment(self, call_id: str = "tc_1", attempt: int = 1) -> ToolAssignment:
        """Return the assignment of a call of the last step."""
        now = self.snapshot
        return ToolAssignment(TASK, now.position.seq - 1, now.position.epoch, call_id, attempt)

    def commit(self, *events: AnyEvent, text: str = "", agent: str = "writer", chunks: int = 0) -> bool:
        """Commit one more step at the current fence; of this number of chunks, as its metadata says."""
        step = step_after(self.steps, text, agent)
        self.steps.append(step.model_copy(update={"metadata": {"chunks": chunks}}).sealed(step.prev_digest))
        return self.store.commit(TASK, self.snapshot.position.epoch, Commit(self.steps[-1], fold(self.steps), events))

    def renew_attempt(self, key: str) -> LeaseStatus | Exception:
        """Renew the lease of an attempt."""
        [status] = self.renewals.renew([AttemptLease(key)])
        return status

    @property
    def snapshot(self) -> Snapshot:
        """The task as the store holds it."""
        snapshot = self.store.load(TASK, 100)
        assert snapshot is not None
        return snapshot

    def events(self) -> list[dict[str, Any]]:
        """Return the events of the event log."""
        return [json.loads(message) for message in self.logs.events(TASK, 0)]

    def event_log(self) -> list[tuple[int, int, str]]:
        """Return the number, the chunks before it and the reason of each logged event."""
        return [(one["seq"], one["chunks"], one["reason"]) for one in self.events()]

    def chunk_log(self) -> list[tuple[int, int, str]]:
        """Return the number, the events before it and the text of each logged chunk."""
        return [(one["seq"], one["events"], one["text"]) for one in map(json.loads, self.chunks())]

    def generations(self) -> set[str]:
        """Return the generations of all messages in both logs."""
        return {one["generation"] for one in [*self.events(), *map(json.loads, self.chunks())]}
