"""Dead letters on Redis: one hash with a letter a field, their ids in the order of burial, and how large they are."""

import time
from collections.abc import Callable
from typing import Any, Final, cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering, call, script_of
from roboco.domain.canonical_json import canonical, well_formed
from roboco.domain.dead_letter import DeadLetter

MOST: Final = 1000
"""How many letters are kept: a producer that goes wrong in a loop must not fill Redis."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""How many bytes all letters may have together; the oldest ones go first."""


class RedisDeadLetters:
    """Messages that no worker takes any more. `connect` is asked for a client each time."""

    def __init__(self, connect: Callable[[], redis.Redis], keys: Keys) -> None:
        self._connect = connect
        self._keys = keys

    def add(self, letter: DeadLetter) -> None:
        """Keep the letter, in place of one with the same id; where there are too many, the oldest ones go."""
        self.add_record(letter.model_dump(mode="json"))

    def add_record(self, record: dict[str, Any]) -> None:
        """Keep a letter that is JSON already; TransientError if it could not be kept."""
        text = well_formed(canonical(record))
        self._run("dead_letter_add", str(record["letter_id"]), text, time.time(), MOST, MOST_BYTES)

    def letter(self, letter_id: str) -> DeadLetter | None:
        """The letter of this id; None if there is none."""
        with answering():
            stored = cast(str | None, self._connect().hget(self._keys.dead, letter_id))
        return None if stored is None else DeadLetter.model_validate_json(stored)

    def letters(self) -> list[DeadLetter]:
        """All letters, oldest first."""
        with answering():
            stored = cast(dict[str, str], self._connect().hgetall(self._keys.dead))
        return sorted(map(DeadLetter.model_validate_json, stored.values()), key=lambda letter: letter.time)

    def count(self) -> int:
        """How many letters there are."""
        with answering():
            return self._connect().hlen(self._keys.dead)

    def remove(self, letter_id: str) -> None:
        """Forget the letter, if it is there."""
        self._run("dead_letter_remove", letter_id)

    def _run(self, name: str, *arguments: str | float) -> None:
        keys = [self._keys.dead, self._keys.dead_order, self._keys.dead_sizes]
        with answering():
            call(script_of(self._connect(), name), keys, arguments)
