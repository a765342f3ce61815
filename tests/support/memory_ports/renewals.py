"""Renewals of leases with scripted answers, from servers that a test can hang."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from roboco.ports.lease_renewals import AttemptLease, Lease, LeaseStatus

Answer = LeaseStatus | Exception
WAIT_TIMEOUT = 30.0
"""Seconds after which a hanging server answers nevertheless."""


class ScriptedRenewals:
    """Renewals of attempts, whose keys are `server/name` or `name`.

    `answers` are the answers to the renewals of a key, of which the last one repeats; HELD for other keys.
    """

    def __init__(self, answers: Mapping[str, Sequence[Answer]] | None = None) -> None:
        self.batches: dict[str, list[list[str]]] = defaultdict(list)
        """For each server the keys of each round trip."""
        self._answers = {key: list(those) for key, those in (answers or {}).items()}
        self._hanging: dict[str, threading.Event] = {}

    def hang(self, server: str) -> threading.Event:
        """Let the server hang. Return the event that lets it answer again."""
        return self._hanging.setdefault(server, threading.Event())

    def count(self, key: str) -> int:
        """Return how often a renewal of the lease was sent."""
        return sum(batch.count(key) for batch in self.batches[_server(key)])

    def server_of(self, lease: Lease) -> str:
        """Return the first part of the key."""
        return _server(_key(lease))

    def renew(self, leases: Sequence[Lease]) -> list[Answer]:
        """Renew the leases, which are on one server."""
        keys = [_key(lease) for lease in leases]
        [server] = {_server(key) for key in keys}
        self.batches[server].append(keys)
        if server in self._hanging:
            assert self._hanging[server].wait(WAIT_TIMEOUT)
        return [self._answer(key) for key in keys]

    def _answer(self, key: str) -> Answer:
        script = self._answers.get(key, [LeaseStatus.HELD])
        return script.pop(0) if len(script) > 1 else script[0]


def _key(lease: Lease) -> str:
    assert isinstance(lease, AttemptLease)
    return lease.key


def _server(key: str) -> str:
    return key.rpartition("/")[0]
