"""A driver of one implementation of the ports: its commands have arguments and results that can be compared.

Epochs are relative: an argument counts back from the current epoch, and a result counts from the first epoch. A command
has the name of the method of the port that it calls.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from unittest.mock import ANY

from roboco.domain.history.part import ToolOutcome
from roboco.domain.history.state import fold
from roboco.domain.stream.event import AnyEvent
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.lease_renewals import CallLease
from roboco.ports.leases import TurnClaim
from roboco.ports.logs import LogTrim
from roboco.ports.snapshot import CallState, Decision, Snapshot, TokenUsage
from roboco.ports.task_store import Commit
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK, make_chain, status_event, text_chunk

TOLERANCE = 10.0
"""Seconds by which two implementations may differ, since a test may run slowly; a machine lets longer times pass."""
STEPS = make_chain(64)
STATES = [fold(STEPS[:count]) for count in range(1, len(STEPS) + 1)]
TAIL = 100
CALLS = ("tc_1", "tc_2")


@dataclass(frozen=True)
class ApproximateSeconds:
    """Seconds that equal others if they differ by less than TOLERANCE."""

    seconds: float | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApproximateSeconds) or self.seconds is None or other.seconds is None:
            return isinstance(other, ApproximateSeconds) and self.seconds is other.seconds
        return (self.seconds > 0, True) == (other.seconds > 0, abs(self.seconds - other.seconds) < TOLERANCE)

    __hash__ = None  # type: ignore[assignment]  # equality is not transitive


class Driver:
    """A task on one implementation.

    `reader` reads the same task and lets time pass; `now` reads the clock of the server.
    """

    def __init__(self, name: str, task: TaskUnderTest, reader: TaskUnderTest, now: Callable[[], float]) -> None:
        self.name = name
        self.sends_twice = "twice" in name
        self.task = task
        self.reader = reader
        self.now = now
        self._first_epoch = 0
        self._epoch = 0
        self._seq = 1
        self._attempt = 1
        self._call_attempts: dict[str, int] = {}
        self._generations: list[str] = []
        self.letter_count = 0

    # State

    def read_state(self) -> dict[str, Any]:
        """Return the state of the task in the store and in both logs."""
        snapshot = self.reader.store.load(TASK, TAIL)
        if snapshot is None:
            self._first_epoch = 0  # the epochs of the next task with this id count from its own first epoch
        else:
            self._remember(snapshot)
        logs = {"events": self.reader.logs.events(TASK, 0), "chunks": self.reader.logs.chunks(TASK, 0)}
        return {"task": self._comparable(snapshot)} | {name: self._messages(log) for name, log in logs.items()}

    def _remember(self, snapshot: Snapshot) -> None:
        if snapshot.logs.generation not in self._generations:
            self._generations.append(snapshot.logs.generation)
        self._first_epoch = self._first_epoch or snapshot.position.epoch
        self._epoch, self._seq, self._attempt = snapshot.position.epoch, snapshot.position.seq, snapshot.attempt.number
        self._call_attempts = {call_id: call.attempt for call_id, call in snapshot.calls.items()}

    def _comparable(self, snapshot: Snapshot | None) -> dict[str, Any] | None:
        if snapshot is None:
            return None
        groups = (snapshot, snapshot.position, snapshot.attempt, snapshot.logs, snapshot.refusals)
        found = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
        for group in ("position", "attempt", "logs", "refusals"):
            del found[group]
        return found | {
            "epoch": self._relative(snapshot.position.epoch),
            "generation": self._generations.index(snapshot.logs.generation),
            "lease_left": ApproximateSeconds(snapshot.attempt.lease_left),
            "dispatched_at": ApproximateSeconds(TOLERANCE * 2 + self.now() - snapshot.position.dispatched_at),
            "cancel_requested_for": None
            if snapshot.attempt.cancel_requested_for is None
            else ApproximateSeconds(TOLERANCE * 2 + snapshot.attempt.cancel_requested_for),
            "deferred_for": ApproximateSeconds(snapshot.attempt.deferred_for),
            "seconds": ApproximateSeconds(TOLERANCE * 2 + snapshot.refusals.seconds),
            "calls": {call_id: _call(call) for call_id, call in snapshot.calls.items()},
        }

    def _messages(self, log: Iterable[bytes]) -> list[dict[str, Any]]:
        messages = [json.loads(message) for message in log]
        return [message | {"generation": self._generations.index(message["generation"])} for message in messages]

    def _relative(self, epoch: int | None) -> int | None:
        return epoch and epoch - self._first_epoch

    # TaskStore

    def create(self, count: int, events: Sequence[AnyEvent]) -> object:
        """Create the task with this number of steps. The result of a command that is sent twice is not compared."""
        created = self.task.store.create(TASK, STEPS[:count], STATES[count - 1], events)
        return ANY if self.sends_twice else created

    def create_with_decision(self, count: int, decision: Decision, events: Sequence[AnyEvent]) -> object:
        """Create the task with this number of steps, and record a decision. Return True if it was recorded."""
        store = self.task.store
        epoch = store.create_with_decision(TASK, STEPS[:count], STATES[count - 1], events[:1], decision, events[1:])
        return epoch is not None

    def record_decision(self, back: int, decision: Decision, events: Sequence[AnyEvent]) -> object:
        return self._relative(self.task.store.record_decision(TASK, self._epoch - back, decision, events))

    def commit(self, back: int, ahead: int, events: Sequence[AnyEvent]) -> object:
        """Commit the step that is this far ahead of the next position."""
        return self.task.store.commit(TASK, self._epoch - back, self._commit(ahead, events))

    def commit_with_decision(self, back: int, ahead: int, decision: Decision, events: Sequence[AnyEvent]) -> object:
        commit = self._commit(ahead, events[:1])
        return self._relative(
            self.task.store.commit_with_decision(TASK, self._epoch - back, commit, decision, events[1:])
        )

    def _commit(self, ahead: int, events: Sequence[AnyEvent]) -> Commit:
        seq = max(0, self._seq + ahead)
        return Commit(STEPS[seq], STATES[seq], events)

    def reset_logs(self, back: int) -> object:
        """Start a new generation of the logs. A fence that moves to the current time counts as one step."""
        before = self._epoch
        reset = self.task.store.reset_logs(TASK, self._epoch - back, [status_event("again"), status_event("and more")])
        snapshot = self.reader.store.load(TASK, 1)
        if snapshot is not None and snapshot.position.epoch != before:
            self._first_epoch += snapshot.position.epoch - before - 1
        return reset

    def expire(self, seconds: int) -> object:
        now = self.task.store.load(TASK, 1)
        return self.task.store.expire(TASK, seconds, now.logs.generation if now is not None else "0")

    # Leases of turns

    def claim(self, at: tuple[int, int], attempt: int, token: str, tail: int) -> object:
        """Claim the turn at a position and attempt relative to the pending one."""
        back, ahead = at
        assignment = TurnAssignment(TASK, self._seq + ahead, self._epoch - back, self._attempt + attempt)
        claim = self.task.leases.claim_turn(assignment, token, tail)
        assert claim is None or (claim.assignment, claim.token) == (assignment, token)
        return claim and self._comparable(claim.snapshot)

    def emit(self, back: int, token: str, number: int, used: TokenUsage) -> object:
        return emit_chunk(self.task.leases, self._claim(back, token), number, text_chunk(f"{token} {number}"), used)

    def renew(self, back: int, token: str) -> object:
        return self.task.leases.renew(self._claim(back, token).lease)

    def cancel_request(self, back: int) -> object:
        request = self.task.leases.cancel_request(self._claim(back, "me"))
        return request and (
            ApproximateSeconds(TOLERANCE * 2 + self.now() - request.requested_at),
            request.emitted_chunks,
        )

    def defer(self, back: int, token: str, seconds: float, refused: bool) -> object:
        return self.task.leases.defer_turn(self._claim(back, token), seconds, status_event(f"{token} waits"), refused)

    def restart(self, back: int, token: str) -> object:
        return self._relative(self.task.leases.restart_turn(TASK, self._epoch - back, status_event("restart"), token))

    def count_redelivery(self, back: int, again: bool) -> object:
        return self.task.leases.count_redelivery(TASK, self._epoch - back, again)

    def _claim(self, back: int, token: str) -> TurnClaim:
        assignment = TurnAssignment(TASK, self._seq, self._epoch - back, self._attempt)
        return TurnClaim(assignment, token, None)  # type: ignore[arg-type]  # the snapshot is not used

    # Leases of calls

    def claim_call(self, at: tuple[int, int], call_id: str, token: str) -> object:
        """Claim a call. `at` counts its epoch back from the current one, and its attempt ahead of the pending one."""
        return self.task.leases.claim_call(self._tool_assignment(at, call_id), token)

    def renew_call(self, at: tuple[int, int], call_id: str, token: str) -> object:
        order = self._tool_assignment(at, call_id)
        return self.task.leases.renew(CallLease(order.task_id, order.epoch, order.call_id, token))

    def record(self, at: tuple[int, int], call_id: str, token: str | None, outcome: ToolOutcome) -> object:
        return self.task.leases.record_outcome(
            self._tool_assignment(at, call_id), token, outcome, status_event(f"{token} did")
        )

    def release_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.task.leases.release_call(self._tool_assignment(at, call_id), token)

    def restart_call(self, at: tuple[int, int], call_id: str, lost: bool) -> object:
        return self.task.leases.restart_call(self._tool_assignment(at, call_id), lost)

    def _tool_assignment(self, at: tuple[int, int], call_id: str) -> ToolAssignment:
        back, attempt = at
        pending = self._call_attempts.get(call_id, 1)
        return ToolAssignment(TASK, self._seq - 1, self._epoch - back, call_id, pending + attempt)

    # The inbox, EventLogs

    def add_items(self, item_ids: Sequence[str], ends: str, back: int | None) -> object:
        """Add items that end "nothing", "all" pending work, or a turn that is "unclaimed"."""
        epoch = None if back is None else self._epoch - back
        self.task.store.add_items(TASK, item_ids, ends == "all", epoch, block_claim=ends == "unclaimed")
        return self.task.store.count_items(TASK)

    def clear_cancellation(self, back: int) -> None:
        self.task.store.clear_cancellation(TASK, self._epoch - back)

    def remove_item(self, item_id: str) -> None:
        self.task.store.remove_item(TASK, item_id)

    def read_logs(self, after: int) -> object:
        logs = (self.task.logs.events(TASK, after), self.task.logs.chunks(TASK, after))
        return [self._messages(log) for log in logs]

    def trim_logs(self, archived: int, kept: int, chunks: int) -> object:
        """Trim the logs to this number of events before the end of the archived ones. Return the answer."""
        now = self.reader.store.load(TASK, 1)
        if now is None:
            return None
        archived = min(now.logs.archived_event + archived, now.logs.events + 1)
        keep_from = max(now.logs.first_event, archived + 1 - kept)
        messages = list(self.reader.logs.events(TASK, now.logs.first_event - 1))[: keep_from - now.logs.first_event]
        chunks_from = max(0, now.logs.chunks + 1 - chunks) if chunks else 0
        trim = LogTrim(
            now.logs.generation, now.logs.first_event, archived, keep_from, sum(map(len, messages)), chunks_from
        )
        return self.task.logs.trim(TASK, trim)

    def wipe(self) -> None:
        self.reader.wipe()

    def pass_time(self, seconds: float) -> None:
        self.reader.pass_time(seconds)


def _call(call: CallState) -> object:
    return (replace(call, lease_left=0.0), ApproximateSeconds(call.lease_left))


def assert_same(drivers: Sequence[Driver], command: str, act: Callable[[Driver], object]) -> None:
    """Run the command on every implementation. Raise AssertionError if the results differ."""
    results = [(driver.name, act(driver)) for driver in drivers]
    for (one, first), (other, second) in itertools.pairwise(results):
        assert first == second, (
            f"after {command}: {one} has {_difference(first, second)}, {other} has {_difference(second, first)}"
        )


def _difference(value: object, other: object) -> object:
    """Return the part of the value that differs from the other one."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {name: _difference(value[name], other.get(name)) for name in value if value[name] != other.get(name)}
    return value
