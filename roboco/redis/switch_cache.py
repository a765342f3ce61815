"""The cache of the switches on Redis: one hash."""

from typing import Any

from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors


class RedisSwitchCache:
    """The switches as Redis has them."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def read(self) -> str | None:
        """Return the switches as JSON, or None if Redis does not have them."""
        with translating_errors():
            found: Any = self._scripts.client.hget(self._keys.switches, "switches")
        return None if found is None else str(found)

    def write(self, text: str, revision: int) -> None:
        """Store the switches, unless newer ones are stored."""
        self._scripts.run("put_switches", [self._keys.switches], revision, text)
