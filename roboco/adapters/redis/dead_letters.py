"""Dead letters on Redis: a hash of letters, their ids in the order of storing, and their sizes."""

import time
from collections.abc import Callable
from typing import Any, Final, cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import call_script, single_script, translating_errors
from roboco.domain.canonical_json import canonical_json, well_formed
from roboco.domain.dead_letter import DeadLetter

MAX_LETTERS: Final = 1000
"""Letters that Redis keeps: a faulty producer in a loop must not fill Redis."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all letters together. Above it, the oldest letters are removed."""


class RedisDeadLetters:
    """Messages and work that Roboco no longer tries. `connect` returns the client for each operation."""

    def __init__(self, connect: Callable[[], redis.Redis], keys: Keys) -> None:
        self._connect = connect
        self._keys = keys

    def add(self, letter: DeadLetter) -> None:
        """Store the letter, in place of one with the same id. If there are too many, the oldest ones are removed."""
        self.add_record(letter.model_dump(mode="json"))

    def add_record(self, record: dict[str, Any]) -> None:
        """Store a letter that is JSON already. Raise TransientError if Redis does not store it."""
        text = well_formed(canonical_json(record))
        self._run("dead_letter_add", str(record["letter_id"]), text, time.time(), MAX_LETTERS, MAX_BYTES)

    def get(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, or None if there is none."""
        with translating_errors():
            stored = cast(str | None, self._connect().hget(self._keys.dead_letters, letter_id))
        return None if stored is None else DeadLetter.model_validate_json(stored)

    def entries(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""
        with translating_errors():
            stored = cast(dict[str, str], self._connect().hgetall(self._keys.dead_letters))
        return sorted(map(DeadLetter.model_validate_json, stored.values()), key=lambda letter: letter.time)

    def count(self) -> int:
        """Return the number of letters."""
        with translating_errors():
            return self._connect().hlen(self._keys.dead_letters)

    def remove(self, letter_id: str) -> None:
        """Remove the letter, if there is one with this id."""
        self._run("dead_letter_remove", letter_id)

    def _run(self, name: str, *arguments: str | float) -> None:
        keys = [self._keys.dead_letters, self._keys.dead_letter_order, self._keys.dead_letter_sizes]
        with translating_errors():
            call_script(single_script(self._connect(), name), keys, arguments)
