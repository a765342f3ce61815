"""broker_scripts: the Lua scripts of kombu, which its consumers on Redis call by their hashes.

Kombu loads a script that Redis does not hold. Of the users in deploy/redis-users.acl only the coordinators' has the
permission for that: so coordinators load the scripts for all workers, and for Flower.
"""

from typing import Any, Final

from celery import Celery
from kombu.transport import redis
from redis.lock import Lock

from roboco.broker.broker_error import translating_errors
from roboco.redis.scripts import load_missing

_untyped: Any = redis  # its stubs lack these constants
BROKER_SCRIPTS: Final = (Lock.LUA_RELEASE_SCRIPT, str(_untyped.REFRESH_BINDING), str(_untyped.SWEEP_BINDINGS))
"""Kombu's scripts: release the mutex of a consumer that restores messages; renew and remove bindings of pidboxes."""


class BrokerScripts:
    """Loads kombu's scripts over a connection that it keeps. Do not share it between threads."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._channel: Any = None

    def load_missing(self) -> int:
        """Load the scripts that the broker does not hold. Return how many; 0 if the broker is not Redis.

        TransientError if the broker does not answer. Cost if none is missing: one SCRIPT EXISTS.
        """
        with translating_errors("the query of its scripts"):
            client = self._client()
        return 0 if client is None else load_missing(client, BROKER_SCRIPTS)

    def _client(self) -> Any:
        if self._channel is None:
            connection: Any = self._app.connection_for_write()
            if connection.transport.driver_type != "redis":
                return None
            self._channel = connection.channel()
        return self._channel.client
