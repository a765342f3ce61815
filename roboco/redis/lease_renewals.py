"""Renewal of leases on Redis, with one script for each kind of lease."""

from collections.abc import Sequence
from typing import assert_never

from roboco.ports.lease_renewals import AttemptLease, CallLease, Lease, LeaseStatus, TurnLease
from roboco.redis.keys import Keys
from roboco.redis.scripts import ScriptCall, Scripts


class RedisLeaseRenewals:
    """Renews leases for `lease` seconds each. The time-outs of the client of `scripts` limit how long a renewal waits.

    `claiming` are the scripts that claim the leases: their client knows the nodes before the first renewal.
    """

    def __init__(self, scripts: Scripts, keys: Keys, lease: float, claiming: Scripts | None = None) -> None:
        self._scripts = scripts
        self._claiming = claiming or scripts
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def server_of(self, lease: Lease) -> str:
        """Return the name of the cluster's node that has the lease; "" for a single Redis."""
        key = self._call(lease).keys[0]
        return self._scripts.server_of(key) or self._claiming.server_of(key)

    def renew(self, leases: Sequence[Lease]) -> list[LeaseStatus | Exception]:
        """Renew the leases. Return the status or error of each."""
        answers = self._scripts.run_all([self._call(lease) for lease in leases])
        return [answer if isinstance(answer, Exception) else LeaseStatus(answer) for answer in answers]

    def _call(self, lease: Lease) -> ScriptCall:
        return renewal_call(self._keys, lease, self._lease_ms)


def renewal_call(keys: Keys, lease: Lease, lease_ms: int) -> ScriptCall:
    """Return the call of a script that renews the lease and returns its status."""
    match lease:
        case TurnLease(task_id, epoch, token, note):
            return ScriptCall("renew", [keys.state(task_id), keys.lease(task_id)], [epoch, token, lease_ms, note])
        case CallLease(task_id, epoch, call_id, token):
            names = [keys.state(task_id), keys.calls(task_id), keys.lease(task_id, call_id)]
            return ScriptCall("renew_call", names, [epoch, call_id, token, lease_ms])
        case AttemptLease(key):
            return ScriptCall("renew_attempt", [keys.attempt_lease(key)], [lease_ms])
        case _ as unknown:
            assert_never(unknown)
