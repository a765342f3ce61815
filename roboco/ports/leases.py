"""Leases on work: on turns and the text that they publish, on tool calls and their outcomes, on other attempts.

A worker claims work before it starts, and renews the lease while it works. If the worker dies, the lease expires; then
a coordinator voids the attempt, and another worker may claim the next one. A renewal or a chunk of a void attempt is
refused, which stops a worker that was only slow. Until then, a renewal or a chunk restores a lease that has expired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.history.part import ToolOutcome
from roboco.domain.stream.event import AnyEvent, StatusChanged, StreamChunk
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.lease_renewals import Lease, LeaseStatus, TurnLease
from roboco.ports.snapshot import Snapshot, TokenUsage


@dataclass(frozen=True)
class CancelRequest:
    """A request to cancel a turn."""

    requested_at: float
    """The time of the request, in Unix seconds."""
    emitted_chunks: int
    """The number of chunks that the turn had emitted at that time."""


@dataclass(frozen=True)
class TurnClaim:
    """A turn that this worker holds until its lease expires."""

    assignment: TurnAssignment
    token: str
    """The token of the lease's owner."""
    snapshot: Snapshot
    """The state of the task at the time of the claim."""

    @property
    def lease(self) -> TurnLease:
        """The lease that this claim holds."""
        return TurnLease(self.assignment.task_id, self.assignment.epoch, self.token)


@dataclass(frozen=True)
class Chunk:
    """A piece of a turn's text."""

    number: int
    """The number of the chunk in this attempt, from 1."""
    message: StreamChunk
    used: TokenUsage
    """The tokens of the reply so far."""


NO_TOKENS = TokenUsage()

EmitCallback = Callable[["LeaseStatus | Exception"], None]
"""A callback with the status of the lease after a chunk, or with the error that prevented the chunk."""


class Leases(Protocol):
    """Leases on turns, on the independent calls of a step, and on other work that may crash its worker.

    Each operation on a turn or call is refused once the fence has moved.
    """

    def claim_turn(self, assignment: TurnAssignment, token: str, tail: int) -> TurnClaim | None:
        """Claim the turn. Return None if the fence moved, the position is taken, or this attempt was claimed before.

        Also return None if the turn was cancelled before it started.
        """

    def emit(self, claim: TurnClaim, chunk: Chunk, on_ack: EmitCallback) -> None:
        """Number, log and publish the chunk, and renew the lease. A chunk whose `number` was sent before is dropped.

        This does not wait: `on_ack` is called with the status of the lease or the error, now or later, from any thread.
        """

    def renew(self, lease: Lease) -> LeaseStatus:
        """Renew the lease if its owner still has it. Return its status."""

    def cancel_request(self, claim: TurnClaim) -> CancelRequest | None:
        """Return the request to cancel the turn, or None."""

    def defer_turn(
        self,
        claim: TurnClaim,
        seconds: float,
        event: StatusChanged,
        refused: bool,
        used: TokenUsage = NO_TOKENS,
    ) -> bool:
        """Defer the turn: the same attempt may be claimed again after these seconds. The event gives the reason.

        With `refused`, count a refusal by the model's server. The tokens that were `used` in vain are charged to the
        next step. Return False if this claim does not hold the lease.
        """

    def release_turn(self, claim: TurnClaim) -> bool:
        """Release the turn, so that the same attempt may be claimed again at once. The caller dispatches it.

        Return False if this claim does not hold the lease, or if the attempt has emitted text.
        """

    def restart_turn(
        self, task_id: str, epoch: int, event: AnyEvent, token: str = "", handed_over: bool = False
    ) -> int | None:
        """Void the attempt and move the fence. Return the new epoch, or None if the fence moved or a lease is live.

        A caller with the `token` of that lease may restart in spite of it. If the turn is `handed_over`, the attempt
        does not count as a failed one.
        """

    def count_redelivery(self, task_id: str, epoch: int, dispatched: bool) -> int:
        """Count a redelivery of unclaimed work. Return the count, or 0 if the fence moved.

        With `dispatched`, record this moment as its last dispatch, and end a delay of the turn.
        """

    def claim_call(self, assignment: ToolAssignment, token: str) -> bool:
        """Claim the call. Return False if the fence moved, it has an outcome, or this attempt was claimed before.

        Also return False if the calls were cancelled before this one started.
        """

    def record_outcome(
        self, assignment: ToolAssignment, token: str | None, outcome: ToolOutcome, event: AnyEvent
    ) -> int | None:
        """Store the outcome, once. Return the number of outcomes of the step, or None if the lease is not held.

        Without a token the lease does not count: the call has exceeded its time limit.
        """

    def release_call(self, assignment: ToolAssignment, token: str, event: StatusChanged | None = None) -> bool:
        """Release the lease, so that this attempt may be claimed again. Return False if it is not held.

        An `event` has the reason for which the call waits until a worker claims it, or `end_wait`. The task has this
        reason until no call of the step waits; the event is sent if the reason is a new one.
        """

    def end_wait(self, assignment: ToolAssignment, others: str) -> bool:
        """End the wait of a call that was released with a reason, and record this moment as its dispatch.

        The caller dispatches it. `others` is why other calls of the step wait, or "": the task has that reason then.
        Return False, and change nothing, if the call does not wait.
        """

    def restart_call(self, assignment: ToolAssignment, worker_lost: bool = False) -> int | None:
        """Void an attempt whose lease has expired. Return the next attempt, or None if there is nothing to void.

        With `worker_lost` the lease does not count: its worker is known to have died.
        """

    def start_attempt(self, key: str) -> int | None:
        """Start an attempt at other work, with a lease. Return the number of earlier attempts that have not finished.

        The count is stored outside the message that announces the work. Return None, and count nothing, while another
        attempt has the lease, which `AttemptLease` names.
        """

    def count_attempt(self, key: str) -> int:
        """Start an attempt without a lease. Return the number of earlier attempts that have not finished."""

    def finish_attempts(self, *keys: str) -> None:
        """Finish the attempts, with success or an error: end their leases and reset their counts.

        All keys name the same task, or there is one key.
        """
