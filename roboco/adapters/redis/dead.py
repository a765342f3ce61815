"""The dead list: messages that no worker could read."""

from collections.abc import Callable
from typing import Any

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering
from roboco.domain.canonical import canonical


class DeadList:
    """Messages that no worker could read."""

    def __init__(self, connect: Callable[[], redis.Redis], keys: Keys) -> None:
        self._connect = connect
        self._keys = keys

    def bury(self, record: dict[str, Any]) -> None:
        """Keep the record of a message; TransientError if it could not be kept."""
        with answering():
            self._connect().rpush(self._keys.dead, canonical(record))
