"""redis_silence: the last time for which Redis did not answer a coordinator, and what follows for leases.

    silent ─► answers ─► grace: workers renew their leases, also expired ones ─► a lease that is still expired is void

While Redis is silent, leases expire although their workers live. A heartbeat renews an expired lease if no coordinator
has voided it. So coordinators wait for that first, and no turn and no call is repeated whose worker goes on.
"""

import math

RENEWAL_MARGIN = 1.0
"""Seconds for the renewals of all workers, beside the interval of their heartbeats."""


class RedisSilence:
    """The last silence of Redis that this process noticed. One thread writes it, the others read it."""

    def __init__(self) -> None:
        self._ended: tuple[float, float] = -math.inf, 0.0

    def end(self, now: float, seconds: float) -> None:
        """Note that Redis answers again at this time, after these seconds."""
        self._ended = now, seconds

    def grace(self, now: float, lease: float) -> float:
        """Return the seconds until a lease of this length that is expired now is the lease of a lost worker, or 0."""
        return max(0.0, self._ended[0] + lease / 3 + RENEWAL_MARGIN - now)

    def lost_reason(self, now: float, lease: float, work: str) -> str:
        """Return why a lease has expired that is not renewed after the grace."""
        at, seconds = self._ended
        if now - at < 2 * lease + RENEWAL_MARGIN:
            return f"Redis did not answer for {seconds:.0f} s, and the worker that {work} it did not renew its lease"
        return f"the worker that {work} it was lost"
