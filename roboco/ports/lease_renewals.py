"""Renewal of leases: each kind of lease as data, and the operation that renews many of them together.

A worker that holds a lease does not wait for its renewal, and one renewal covers the leases of all work in its process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum


class LeaseStatus(Enum):
    """The status of a lease: held, held with a request to cancel the work (CANCEL_REQUESTED), or lost, which is false.

    Scripts return these values.
    """

    LOST = 0
    HELD = 1
    CANCEL_REQUESTED = 2

    def __bool__(self) -> bool:
        return self is not LeaseStatus.LOST


@dataclass(frozen=True)
class TurnLease:
    """The lease on a turn."""

    task_id: str
    epoch: int
    token: str
    """The token of the lease's owner."""
    note: str = ""
    """What the renewal records of the turn in progress, as JSON, or ""."""


@dataclass(frozen=True)
class CallLease:
    """The lease on a tool call."""

    task_id: str
    epoch: int
    call_id: str
    token: str
    """The token of the lease's owner."""


@dataclass(frozen=True)
class AttemptLease:
    """The lease of an attempt that `Leases.start_attempt` has started."""

    key: str
    """The key of the attempt."""


Lease = TurnLease | CallLease | AttemptLease

ServerOf = Callable[[Lease], str]
"""Returns a name of the server that has the lease, as far as this process knows. It does not wait.

The leases of an unreachable server are renewed apart from those of other servers.
"""
Renew = Callable[[Sequence[Lease]], Sequence[LeaseStatus | Exception]]
"""Renews leases that this process holds, with one round trip to each server. It returns the status or error of each.

A renewal may run twice or late: only its owner's token counts. The work of a lease continues after an error.
TransientError means that the server did not answer: it may have renewed the lease, and a later renewal may succeed. It
waits for a fraction of the lease time.
"""
