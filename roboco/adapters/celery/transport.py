"""Kombu's transport over Redis, with one client for each channel instead of one for each command.

To make them was a tenth of the samples of an agents process under load (redis-py 8.1: 0.06 ms each). Clients keep no
state but their pool of connections, and may be shared by threads.
"""

from typing import Any

from kombu import transport
from kombu.transport import redis


class Channel(redis.Channel):
    """Kombu's channel, which asks for a client with each command."""

    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        make: Any = super()._create_client  # type: ignore[misc]  # the stubs lack it
        if asynchronous:  # kombu keeps those itself
            return make(asynchronous=True)
        kept = self._kept
        if kept is None or kept.connection_pool is not self.pool:
            kept = self._kept = make()
        return kept


class Transport(redis.Transport):
    """Kombu's transport."""

    Channel = Channel


def keep_clients() -> None:
    """From now on all connections of this process to brokers at `redis://` and `rediss://` are of this transport."""
    of_kombu = vars(transport)
    for scheme in ("redis", "rediss"):
        of_kombu["TRANSPORT_ALIASES"][scheme] = f"{__name__}:Transport"
        of_kombu["_transport_cache"].pop(scheme, None)  # what this process has connected with before
