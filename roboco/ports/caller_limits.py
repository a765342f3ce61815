"""The requests, bytes and streams of callers of the gateway, counted for all gateway processes together."""

from dataclasses import dataclass
from typing import Protocol

from roboco.domain.access_key import CallerLimits
from roboco.errors import TransientError


@dataclass(frozen=True)
class Account:
    """A caller, and the limits that apply to it."""

    tenant: str
    """Its tenant, or ""."""
    by: str
    """Its identity."""
    own: CallerLimits
    """The limits of the caller alone."""
    shared: CallerLimits
    """The limits of all callers of its tenant together. They never apply to a caller without a tenant."""


@dataclass(frozen=True)
class Accepted:
    """The request is counted."""

    remaining: int | None = None
    """The requests that the caller may make at once now, or None if they are not limited."""
    seconds: float = 0.0
    """The seconds until it may make the full number at once."""


@dataclass(frozen=True)
class LimitReached:
    """A limit is reached, and nothing is counted."""

    limit: str
    """The name of the limit, as `CallerLimits` names it; with "tenant_" before it if it is the tenant's."""
    seconds: float
    """The seconds after which the same request can be accepted, or an estimate."""


class RefusedWrites(TransientError):
    """Redis answers, and refuses writes for now: its memory or disk is full, or it is a replica."""


class CallerCounts(Protocol):
    """Counts of callers. Methods raise TransientError if the server does not answer, RefusedWrites if it is full."""

    def admit(self, account: Account, size: int) -> Accepted | LimitReached:
        """Count a request with a body of this many bytes. A body beyond the limit is accepted if none is unpaid.

        Not idempotent: a request whose answer is lost counts twice if it is repeated.
        """

    def charge(self, account: Account, size: int) -> None:
        """Count bytes that a request did not announce. They delay the next request."""

    def hold_streams(self, account: Account, process: str, own: int, shared: int) -> LimitReached | None:
        """Lease this many open streams to the process, in place of its earlier number. LimitReached changes nothing.

        `own` are the caller's, and `shared` those of all callers of its tenant.
        """

    def renew_streams(self, account: Account, process: str, own: int, shared: int) -> None:
        """Renew the lease with these numbers, whatever the limit. The lease of a process that has died ends."""
