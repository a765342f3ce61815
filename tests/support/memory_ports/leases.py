"""Leases in memory: on turns, with their chunks, on tool calls, and on other attempts at work."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from roboco.domain.history.part import ToolOutcome
from roboco.domain.stream.event import AnyEvent, StatusChanged
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.clock import Clock
from roboco.ports.lease_renewals import AttemptLease, CallLease, Lease, LeaseStatus, TurnLease
from roboco.ports.leases import NO_TOKENS, CancelRequest, Chunk, EmitCallback, Leases, TurnClaim
from roboco.ports.snapshot import Phase, TokenUsage
from tests.support.memory_ports.server import MemoryServer, StoredCall, StoredTask
from tests.support.memory_ports.task_store import snapshot


class MemoryLeases(Leases):
    """Leases of `lease` seconds on turns, tool calls and other attempts at work."""

    def __init__(self, server: MemoryServer, clock: Clock, lease: float) -> None:
        self._server = server
        self._clock = clock
        self._lease = lease

    def claim_turn(self, assignment: TurnAssignment, token: str, tail: int) -> TurnClaim | None:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(assignment.task_id)
            if task is None or task.phase is not Phase.TURN or task.owner not in ("", token):
                return None
            if (task.epoch, task.seq, task.attempt) != (assignment.epoch, assignment.seq, assignment.attempt):
                return None
            if task.owner == "" and task.cancellation[0] == task.epoch:
                return None
            task.owner = token
            task.reason = "" if task.deferred_token else task.reason
            task.deferral = (0, 0.0)
            task.lease_until = now + self._lease
            shown = snapshot(task, tail, now, ())
            attempt = replace(shown.attempt, cancel_requested_for=None, deferred_for=None)  # only `load` sets them
            return TurnClaim(assignment, token, replace(shown, attempt=attempt, calls={}))

    def emit(self, claim: TurnClaim, chunk: Chunk, on_ack: EmitCallback) -> None:
        with self._server:
            task = _renewed_turn(self._server, claim.lease, self._clock.now() + self._lease)
            if task is not None and chunk.number > task.emitted:
                task.emitted, task.used = chunk.number, chunk.used
                self._server.publish_chunk(claim.assignment.task_id, task, chunk.message)
            lease_status = LeaseStatus.LOST if task is None else _lease_status(task)
        on_ack(lease_status)

    def renew(self, lease: Lease) -> LeaseStatus:
        [status] = MemoryLeaseRenewals(self._server, self._clock, self._lease).renew([lease])
        return status

    def cancel_request(self, claim: TurnClaim) -> CancelRequest | None:
        with self._server as held:
            task = held.tasks.get(claim.assignment.task_id)
            if task is None or task.cancellation[0] != claim.assignment.epoch:
                return None
            return CancelRequest(*task.cancellation[1:])

    def defer_turn(
        self,
        claim: TurnClaim,
        seconds: float,
        event: StatusChanged,
        refused: bool,
        used: TokenUsage = NO_TOKENS,
    ) -> bool:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(claim.assignment.task_id)
            if task is None or (task.epoch, task.owner) != (claim.assignment.epoch, claim.token):
                given_back = ("", claim.assignment.epoch, claim.token)
                return task is not None and (task.owner, task.epoch, task.deferred_token) == given_back
            task.deferred_token = claim.token
            task.owner, task.lease_until, task.reason = "", 0.0, event.reason
            task.deferral = (task.epoch, now + seconds)
            if refused:
                before = task.refusals[1] if task.refusals[0] == task.epoch else 0
                task.refusals = (task.epoch, before + 1)
                task.refused_at = task.refused_at if before else now
                task.refused_for = now - task.refused_at
            if used != NO_TOKENS:
                task.unfinished = (task.seq, task.unfinished_usage().plus(used))
            self._server.publish_event(claim.assignment.task_id, task, event)
            return True

    def release_turn(self, claim: TurnClaim) -> bool:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(claim.assignment.task_id)
            if task is None or task.epoch != claim.assignment.epoch:
                return False
            if (task.owner, task.released_token) == ("", claim.token):
                return True
            if task.owner != claim.token or task.emitted:
                return False
            task.owner, task.released_token, task.lease_until = "", claim.token, 0.0
            task.redeliveries, task.dispatched_at = 0, now
            return True

    def restart_turn(
        self, task_id: str, epoch: int, event: AnyEvent, token: str = "", handed_over: bool = False
    ) -> int | None:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None or task.epoch != epoch:
                return None
            if task.lease_until > now and task.owner != token:
                return None
            task.epoch += 1
            task.attempt += 1
            task.handovers += handed_over
            task.unfinished = (task.seq, task.unfinished_usage().plus(task.used))
            task.dispatched_at = now
            task.release()
            self._server.publish_event(task_id, task, event)
            return task.epoch

    def count_redelivery(self, task_id: str, epoch: int, dispatched: bool) -> int:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(task_id)
            if task is None or task.epoch != epoch:
                return 0
            task.redeliveries += 1
            if dispatched:
                task.dispatched_at, task.deferral = now, (0, 0.0)
            return task.redeliveries

    def claim_call(self, assignment: ToolAssignment, token: str) -> bool:
        now = self._clock.now()
        with self._server as held:
            task = held.tasks.get(assignment.task_id)
            if task is None or task.epoch != assignment.epoch or task.phase is not Phase.TOOLS:
                return False
            call = task.calls.get(assignment.call_id, StoredCall())
            if call.owner == "" and task.cancellation[0] == task.epoch:
                return False
            if call.outcome is not None or call.attempt != assignment.attempt or call.owner not in ("", token):
                return False
            call.owner = token
            call.lease_until = now + self._lease
            task.calls[assignment.call_id] = call
            _end_wait(task, call)
            return True

    def record_outcome(
        self, assignment: ToolAssignment, token: str | None, outcome: ToolOutcome, event: AnyEvent
    ) -> int | None:
        with self._server as held:
            call = self._call(assignment)
            if call is None or call.attempt != assignment.attempt or token not in (None, call.owner):
                return None
            task = held.tasks[assignment.task_id]
            if call.outcome is None:
                task.calls[assignment.call_id] = call
                call.outcome = outcome.model_dump_json()
                call.lease_until = 0.0
                self._server.publish_event(assignment.task_id, task, event)
            return sum(1 for one in task.calls.values() if one.outcome is not None)

    def release_call(self, assignment: ToolAssignment, token: str, event: StatusChanged | None = None) -> bool:
        with self._server as held:
            call = self._call(assignment)
            if call is None or call.outcome is not None:
                return False
            if (call.owner, call.released_token) == ("", token):
                return True
            if (call.attempt, call.owner) != (assignment.attempt, token):
                return False
            call.owner, call.released_token = "", token
            call.lease_until = 0.0
            task = held.tasks[assignment.task_id]
            if event is not None:
                call.wait_epoch = task.epoch
            if event is not None and task.reason != event.reason:
                task.reason = event.reason
                self._server.publish_event(assignment.task_id, task, event)
            return True

    def end_wait(self, assignment: ToolAssignment, others: str) -> bool:
        now = self._clock.now()
        with self._server as held:
            call = self._call(assignment)
            if call is None or call.outcome is not None or call.attempt != assignment.attempt:
                return False
            task = held.tasks[assignment.task_id]
            if not _end_wait(task, call, others):
                return False
            task.dispatched_at = now
            return True

    def restart_call(self, assignment: ToolAssignment, worker_lost: bool = False) -> int | None:
        now = self._clock.now()
        with self._server as held:
            call = self._call(assignment)
            if call is None or call.outcome is not None or call.attempt != assignment.attempt or not call.owner:
                return None
            if call.lease_until > now and not worker_lost:
                return None
            call.owner = ""
            call.lease_until = 0.0
            call.attempt += 1
            held.tasks[assignment.task_id].dispatched_at = now
            return call.attempt

    def _call(self, order: ToolAssignment) -> StoredCall | None:
        return _find_call(self._server, order.task_id, order.epoch, order.call_id)

    def start_attempt(self, key: str) -> int | None:
        now = self._clock.now()
        with self._server as held:
            if held.attempt_leases.get(key, 0.0) > now:
                return None
            held.attempt_leases[key] = now + self._lease
        return self.count_attempt(key)

    def count_attempt(self, key: str) -> int:
        with self._server as held:
            held.attempts[key] = held.attempts.get(key, 0) + 1
            return held.attempts[key] - 1

    def finish_attempts(self, *keys: str) -> None:
        with self._server as held:
            for key in keys:
                held.attempts.pop(key, None)
                held.attempt_leases.pop(key, None)


def _end_wait(task: StoredTask, call: StoredCall, others: str = "") -> bool:
    """End the wait of the call. The task has a reason until no call of it waits. Return True if the call waited."""
    if call.wait_epoch != task.epoch:
        return False
    call.wait_epoch = 0
    if any(one.wait_epoch == task.epoch for one in task.calls.values()):
        task.reason = others or task.reason
    else:
        task.reason = ""
    return True


def _lease_status(task: StoredTask) -> LeaseStatus:
    return LeaseStatus.CANCEL_REQUESTED if task.cancellation[0] == task.epoch else LeaseStatus.HELD


def _find_call(server: MemoryServer, task_id: str, epoch: int, call_id: str) -> StoredCall | None:
    task = server.held.tasks.get(task_id)
    return None if task is None or task.epoch != epoch else task.calls.get(call_id, StoredCall())


class MemoryLeaseRenewals:
    """Renewals of leases for `lease` seconds each."""

    def __init__(self, server: MemoryServer, clock: Clock, lease: float) -> None:
        self._server = server
        self._clock = clock
        self._lease = lease

    def server_of(self, lease: Lease) -> str:
        """Return the name of the one server."""
        return ""

    def renew(self, leases: Sequence[Lease]) -> list[LeaseStatus]:
        """Renew the leases. Return the status of each."""
        return [self._renew(lease) for lease in leases]

    def _renew(self, lease: Lease) -> LeaseStatus:
        now = self._clock.now()
        with self._server as held:
            match lease:
                case TurnLease():
                    task = _renewed_turn(self._server, lease, now + self._lease)
                    return LeaseStatus.LOST if task is None else _lease_status(task)
                case CallLease(task_id, epoch, call_id, token):
                    call = _find_call(self._server, task_id, epoch, call_id)
                    if call is None or call.owner != token:
                        return LeaseStatus.LOST
                    call.lease_until = now + self._lease
                case AttemptLease(key):
                    if held.attempt_leases.get(key, 0.0) <= now:
                        return LeaseStatus.LOST
                    held.attempt_leases[key] = now + self._lease
                case _ as unknown:
                    assert_never(unknown)
        return LeaseStatus.HELD


def _renewed_turn(server: MemoryServer, lease: TurnLease, until: float) -> StoredTask | None:
    """Return the task with its turn's lease renewed, or None if the lease is lost."""
    with server as held:
        task = held.tasks.get(lease.task_id)
        if task is None or (task.epoch, task.owner) != (lease.epoch, lease.token):
            return None
        task.lease_until = until
        task.note = (lease.epoch, lease.note) if lease.note else task.note
        return task
