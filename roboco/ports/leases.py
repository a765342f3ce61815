"""Leases on turns and tool calls, and the text that a turn publishes under its lease."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from roboco.domain.history.priority import Priority
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.stream.event import AnyEvent, StatusChanged, StreamChunk
from roboco.ports.task_store import Snapshot, Used


class LeaseStatus(Enum):
    """The state of a lease: held, held with a request to end the work now (CANCEL_REQUESTED), or lost, which is false.

    Scripts return these values.
    """

    LOST = 0
    HELD = 1
    CANCEL_REQUESTED = 2

    def __bool__(self) -> bool:
        return self is not LeaseStatus.LOST


@dataclass(frozen=True)
class Cut:
    """A request to end a turn: its time, in Unix seconds, and the number of chunks that the turn had emitted."""

    at: float
    emitted: int


@dataclass(frozen=True)
class TurnOrder:
    """The turn that a message announces."""

    task_id: str
    seq: int
    epoch: int
    attempt: int
    priority: Priority = "normal"


@dataclass(frozen=True)
class TurnClaim:
    """A turn that this worker holds until its lease expires. `token` is the owner's; `task` is the board's state."""

    order: TurnOrder
    token: str
    task: Snapshot


@dataclass(frozen=True)
class Chunk:
    """A piece of a turn's text: its `number` in this attempt, from 1, and the tokens of the answer so far."""

    number: int
    message: StreamChunk
    used: Used


Heard = Callable[["LeaseStatus | Exception"], None]
"""Is called with the state of the lease after a chunk, or with the error that kept the chunk back."""


class Turns(Protocol):
    """Leases on turns. Each operation is refused once the fence has moved."""

    def claim(self, order: TurnOrder, token: str, tail: int) -> TurnClaim | None:
        """Claim the turn. Return None if the fence moved, the position is taken, or this attempt was claimed before.

        Return None also if the end of the turn was requested before it began.
        """

    def emit(self, claim: TurnClaim, chunk: Chunk, heard: Heard) -> None:
        """Number, log and publish the chunk, and renew the lease. A chunk whose `number` was sent before is dropped.

        This does not wait: `heard` is called with the state of the lease or the error, now or later, from any thread.
        """

    def renew(self, claim: TurnClaim) -> LeaseStatus:
        """Renew the lease if this claim still holds it. Return its state."""

    def cut(self, claim: TurnClaim) -> Cut | None:
        """Return the request to end the turn, or None."""

    def defer(
        self, claim: TurnClaim, seconds: float, event: StatusChanged, refused: bool, declined_by: str = ""
    ) -> bool:
        """Defer the turn: the same attempt may be claimed again after so many seconds. The event gives the reason.

        With `refused`, count a refusal by the model's server. With `declined_by`, note that this worker cannot make
        the turn. Return False if this claim does not hold the lease.
        """

    def restart(self, task_id: str, epoch: int, event: AnyEvent, token: str = "") -> int | None:
        """Void the attempt and move the fence. Return the new epoch, or None if the fence moved or a lease is live.

        A caller with the `token` of that lease may restart in spite of it.
        """

    def ring(self, task_id: str, epoch: int, again: bool) -> int:
        """Count that the pending choice was found unclaimed. Return the count, or 0 if the fence moved.

        With `again` record this moment as its last dispatch, and end a delay of the turn.
        """


@dataclass(frozen=True)
class CallOrder:
    """The tool call that a message announces; `seq` is the position of the step that called."""

    task_id: str
    seq: int
    epoch: int
    call_id: str
    attempt: int
    priority: Priority = "normal"


class Calls(Protocol):
    """Leases on tool calls, and the outcomes of calls. The calls of a step are independent."""

    def claim(self, order: CallOrder, token: str) -> bool:
        """Claim the call. Return False if the fence moved, it has an outcome, or this attempt was claimed before.

        Return False also if the end of the calls was requested before this one began.
        """

    def renew(self, order: CallOrder, token: str) -> bool:
        """Renew the lease. Return False if this worker no longer holds it."""

    def record(self, order: CallOrder, token: str | None, outcome: Outcome, event: AnyEvent) -> int | None:
        """Store the outcome, once. Return the number of outcomes of the step, or None if the lease is not held.

        Without a token the lease does not count: the call has exceeded its time limit.
        """

    def give_back(self, order: CallOrder, token: str, declined_by: str = "") -> None:
        """Release the lease, so that this attempt may be claimed again. Nothing happens if it is not held.

        With `declined_by`, note that this worker cannot run the call.
        """

    def restart(self, order: CallOrder, lost: bool = False) -> int | None:
        """Void an attempt whose lease has expired. Return the next attempt, or None if there is nothing to void.

        With `lost` the lease does not count: its worker is known to be gone.
        """
