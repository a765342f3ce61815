"""One implementation of the ports, driven by commands whose arguments and answers are comparable with another's.

Epochs are relative: an argument says how far behind the present epoch it is, an answer how far after the first one.
All uses of the ports' signatures by the state machines are in this module.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from unittest.mock import ANY

from roboco.domain.dead_letter import DeadLetter
from roboco.domain.history.state import fold
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.stream.event import AnyEvent
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.leases import TurnClaim
from roboco.ports.task_store import CallState, Commit, Decision, Snapshot, TokenUsage
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK, make_chain, status_event, text_chunk

TOLERANCE = 10.0
"""Seconds by which two sides may differ, since a test may run slowly; what a machine lets pass is longer."""
STEPS = make_chain(64)
STATES = [fold(STEPS[:count]) for count in range(1, len(STEPS) + 1)]
TAIL = 100
CALLS = ("tc_1", "tc_2")


@dataclass(frozen=True)
class ApproximateSeconds:
    """Seconds, equal to others that differ by less than SLACK."""

    seconds: float | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApproximateSeconds) or self.seconds is None or other.seconds is None:
            return isinstance(other, ApproximateSeconds) and self.seconds is other.seconds
        return (self.seconds > 0, True) == (other.seconds > 0, abs(self.seconds - other.seconds) < TOLERANCE)

    __hash__ = None  # type: ignore[assignment]  # equality is not transitive


class Driver:
    """A task on one implementation; `reader` reads the same and lets time pass, `now` is the clock of its server."""

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

    # what the side holds

    def read_state(self) -> dict[str, Any]:
        """All that the board and the logs say of the task."""
        snapshot = self.reader.store.load(TASK, TAIL)
        if snapshot is None:
            self._first_epoch = 0  # the next life counts anew
        else:
            self._note(snapshot)
        logs = {"events": self.reader.logs.events(TASK, 0), "chunks": self.reader.logs.chunks(TASK, 0)}
        return {"task": self._comparable(snapshot)} | {name: self._messages(log) for name, log in logs.items()}

    def _note(self, snapshot: Snapshot) -> None:
        if snapshot.generation not in self._generations:
            self._generations.append(snapshot.generation)
        self._first_epoch = self._first_epoch or snapshot.epoch
        self._epoch, self._seq, self._attempt = snapshot.epoch, snapshot.seq, snapshot.attempt
        self._call_attempts = {call_id: call.attempt for call_id, call in snapshot.calls.items()}

    def _comparable(self, snapshot: Snapshot | None) -> dict[str, Any] | None:
        if snapshot is None:
            return None
        found = {field.name: getattr(snapshot, field.name) for field in fields(snapshot)}
        return found | {
            "epoch": self._relative(snapshot.epoch),
            "generation": self._generations.index(snapshot.generation),
            "lease_left": ApproximateSeconds(snapshot.lease_left),
            "dispatched_at": ApproximateSeconds(TOLERANCE * 2 + self.now() - snapshot.dispatched_at),
            "cancel_requested_for": None
            if snapshot.cancel_requested_for is None
            else ApproximateSeconds(TOLERANCE * 2 + snapshot.cancel_requested_for),
            "deferred_for": ApproximateSeconds(snapshot.deferred_for),
            "refused_for": ApproximateSeconds(TOLERANCE * 2 + snapshot.refused_for),
            "calls": {call_id: _call(call) for call_id, call in snapshot.calls.items()},
        }

    def _messages(self, log: Iterable[bytes]) -> list[dict[str, Any]]:
        messages = [json.loads(message) for message in log]
        return [message | {"generation": self._generations.index(message["generation"])} for message in messages]

    def _relative(self, epoch: int | None) -> int | None:
        return epoch and epoch - self._first_epoch

    # Board

    def create(self, count: int, events: Sequence[AnyEvent]) -> object:
        """Set the task up with so many steps; if that is sent twice, the answer is the second one's."""
        created = self.task.store.create(TASK, STEPS[:count], STATES[count - 1], events)
        return ANY if self.sends_twice else created

    def record_decision(self, back: int, choice: Decision, events: Sequence[AnyEvent]) -> object:
        """Write a choice down."""
        return self._relative(self.task.store.record_decision(TASK, self._epoch - back, choice, events))

    def commit(self, back: int, ahead: int, events: Sequence[AnyEvent]) -> object:
        """Take over the step that is so far ahead of the next position."""
        return self.task.store.commit(TASK, self._epoch - back, self._commit(ahead, events))

    def commit_with_decision(self, back: int, ahead: int, choice: Decision, events: Sequence[AnyEvent]) -> object:
        """Take over a step, and write a choice down."""
        commit = self._commit(ahead, events[:1])
        return self._relative(
            self.task.store.commit_with_decision(TASK, self._epoch - back, commit, choice, events[1:])
        )

    def _commit(self, ahead: int, events: Sequence[AnyEvent]) -> Commit:
        seq = max(0, self._seq + ahead)
        return Commit(STEPS[seq], STATES[seq], events)

    def reset_logs(self, back: int) -> object:
        """Begin a new generation of the logs. A fence that moves, to the time, counts as one step."""
        before = self._epoch
        begun = self.task.store.reset_logs(TASK, self._epoch - back, [status_event("again"), status_event("and more")])
        snapshot = self.reader.store.load(TASK, 1)
        if snapshot is not None and snapshot.epoch != before:
            self._first_epoch += snapshot.epoch - before - 1
        return begun

    def expire(self, seconds: int) -> object:
        """Remove the task after so many seconds."""
        now = self.task.store.load(TASK, 1)
        return self.task.store.expire(TASK, seconds, now.generation if now is not None else "0")

    # Turns

    def claim(self, back: int, ahead: int, attempt: int, token: str, tail: int) -> object:
        """Claim the turn at a position and attempt relative to the pending one."""
        assignment = TurnAssignment(TASK, self._seq + ahead, self._epoch - back, self._attempt + attempt)
        claim = self.task.turns.claim(assignment, token, tail)
        assert claim is None or (claim.assignment, claim.token) == (assignment, token)
        return claim and self._comparable(claim.snapshot)

    def emit(self, back: int, token: str, number: int, used: TokenUsage) -> object:
        """Emit a chunk."""
        return emit_chunk(self.task.turns, self._claim(back, token), number, text_chunk(f"{token} {number}"), used)

    def renew(self, back: int, token: str) -> object:
        """Renew the lease on the turn."""
        return self.task.turns.renew(self._claim(back, token))

    def cancel_request(self, back: int) -> object:
        """Ask whether the turn is to end."""
        cancel_request = self.task.turns.cancel_request(self._claim(back, "me"))
        return cancel_request and (
            ApproximateSeconds(TOLERANCE * 2 + self.now() - cancel_request.requested_at),
            cancel_request.emitted_chunks,
        )

    def defer(self, back: int, token: str, seconds: float, refused: bool) -> object:
        """Give the turn back."""
        return self.task.turns.defer(self._claim(back, token), seconds, status_event(f"{token} waits"), refused)

    def restart(self, back: int, token: str) -> object:
        """Void the attempt at the turn."""
        return self._relative(self.task.turns.restart(TASK, self._epoch - back, status_event("restart"), token))

    def count_redelivery(self, back: int, again: bool) -> object:
        """Count that the pending choice was found untaken."""
        return self.task.turns.count_redelivery(TASK, self._epoch - back, again)

    def _claim(self, back: int, token: str) -> TurnClaim:
        assignment = TurnAssignment(TASK, self._seq, self._epoch - back, self._attempt)
        return TurnClaim(assignment, token, None)  # type: ignore[arg-type]  # nothing of the task is asked for

    # Calls

    def claim_call(self, at: tuple[int, int], call_id: str, token: str) -> object:
        """Claim a call; `at` says how far behind its epoch is, and how far ahead its attempt."""
        return self.task.calls.claim(self._tool_assignment(at, call_id), token)

    def renew_call(self, at: tuple[int, int], call_id: str, token: str) -> object:
        """Renew the lease on a call."""
        return self.task.calls.renew(self._tool_assignment(at, call_id), token)

    def record(self, at: tuple[int, int], call_id: str, token: str | None, outcome: ToolOutcome) -> object:
        """Keep the outcome of a call."""
        return self.task.calls.record_outcome(
            self._tool_assignment(at, call_id), token, outcome, status_event(f"{token} did")
        )

    def release_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        """Give a call back."""
        self.task.calls.release(self._tool_assignment(at, call_id), token)

    def restart_call(self, at: tuple[int, int], call_id: str, lost: bool) -> object:
        """Void the attempt at a call."""
        return self.task.calls.restart(self._tool_assignment(at, call_id), lost)

    def _tool_assignment(self, at: tuple[int, int], call_id: str) -> ToolAssignment:
        back, attempt = at
        pending = self._call_attempts.get(call_id, 1)
        return ToolAssignment(TASK, self._seq - 1, self._epoch - back, call_id, pending + attempt)

    # Inbox, Logs

    def add_items(self, item_ids: Sequence[str], ends: str, back: int | None) -> object:
        """Note items that end "nothing", "all" pending work, or a turn that is "unclaimed"."""
        epoch = None if back is None else self._epoch - back
        self.task.inbox.add(TASK, item_ids, ends == "all", epoch, block_claim=ends == "unclaimed")
        return self.task.inbox.count(TASK)

    def clear_cancellation(self, back: int) -> None:
        """Let the pending work go on."""
        self.task.inbox.clear_cancellation(TASK, self._epoch - back)

    def remove_item(self, item_id: str) -> None:
        """Forget an item."""
        self.task.inbox.remove(TASK, item_id)

    def read_logs(self, after: int) -> object:
        """Read both logs from a number on."""
        logs = (self.task.logs.events(TASK, after), self.task.logs.chunks(TASK, after))
        return [self._messages(log) for log in logs]

    # Schedule

    def put(self, task_id: str, delay: float) -> None:
        """Look at a task after so many seconds."""
        self.task.schedule.set(task_id, delay)

    def add(self, task_id: str, delay: float) -> object:
        """Look at a task after so many seconds, unless a time is set; if sent twice, the answer is the second one's."""
        added = self.task.schedule.set_default(task_id, delay)
        return ANY if self.sends_twice else added

    def schedule_no_later_than(self, task_id: str, delay: float) -> None:
        """Look at a task after so many seconds at the latest."""
        self.task.schedule.schedule_no_later_than(task_id, delay)

    def due(self, limit: int) -> list[str]:
        """The tasks that are due."""
        return self.reader.schedule.due(limit)

    def known(self) -> list[str]:
        """The tasks that have a time."""
        return sorted(self.reader.schedule.task_ids())

    def drop(self, task_id: str) -> None:
        """Do not look at a task again."""
        self.task.schedule.remove(task_id)

    def lock(self, token: str, seconds: float) -> object:
        """Ask to sweep."""
        return self.task.schedule.lock(token, seconds)

    def mark_filled(self, seconds: float) -> None:
        """Note that the schedule is whole."""
        self.task.schedule.mark_filled(seconds)

    def read_marks(self) -> object:
        """What is known of the last beginning."""
        schedule = self.task.schedule
        return (schedule.is_intact(), schedule.was_restarted(), schedule.recently_filled())

    # Attempts, DeadLetters

    def start_attempt(self, key: str) -> object:
        """Begin work."""
        return self.task.attempts.start(key)

    def renew_attempt(self, key: str) -> object:
        """Be at work for one more lease."""
        return self.task.attempts.renew(key)

    def start_attempt_without_lease(self, key: str) -> object:
        """Count a beginning of work."""
        return self.task.attempts.start_without_lease(key)

    def finish_attempt(self, key: str) -> None:
        """End work."""
        self.task.attempts.finish(key)

    def add_letter(self, letter: DeadLetter) -> object:
        """Keep a letter; answer all."""
        self.task.dead_letters.add(letter)
        return self.reader.dead_letters.entries()

    def remove_letter(self, letter_id: str) -> object:
        """Forget a letter; answer what was there and is there."""
        found = self.reader.dead_letters.get(letter_id)
        self.task.dead_letters.remove(letter_id)
        return (found, self.reader.dead_letters.entries())

    def wipe(self) -> None:
        """Lose everything."""
        self.reader.wipe()

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.reader.pass_time(seconds)


def _call(call: CallState) -> object:
    return (replace(call, lease_left=0.0), ApproximateSeconds(call.lease_left))


def assert_same(drivers: Sequence[Driver], command: str, act: Callable[[Driver], object]) -> None:
    """Have every side do the same, and compare what they answer."""
    answers = [(driver.name, act(driver)) for driver in drivers]
    for (one, mine), (other, yours) in itertools.pairwise(answers):
        assert mine == yours, f"after {command}: {one} has {_part(mine, yours)}, {other} has {_part(yours, mine)}"


def _part(mine: object, yours: object) -> object:
    """The part that differs."""
    if isinstance(mine, dict) and isinstance(yours, dict):
        return {name: _part(mine[name], yours.get(name)) for name in mine if mine[name] != yours.get(name)}
    return mine
