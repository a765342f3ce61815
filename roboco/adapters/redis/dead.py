"""Dead letters on Redis: one hash with a letter a field, and their ids in the order of burial."""

import time
from collections.abc import Callable
from typing import Any, cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering
from roboco.domain.canonical import canonical
from roboco.domain.letter import DeadLetter

MOST = 1000
"""How many letters are kept: a producer that goes wrong in a loop must not fill Redis."""


class RedisDeadLetters:
    """Messages that nobody delivers any more. `connect` is asked for a client each time."""

    def __init__(self, connect: Callable[[], redis.Redis], keys: Keys) -> None:
        self._connect = connect
        self._keys = keys

    def bury(self, letter: DeadLetter) -> None:
        """Keep the letter, in place of one with the same id; where there are too many, the oldest one goes."""
        self.bury_record(letter.model_dump(mode="json"))

    def bury_record(self, record: dict[str, Any]) -> None:
        """Keep a letter that is JSON already; TransientError if it could not be kept."""
        letter_id = str(record["letter_id"])
        with answering(), self._connect().pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.dead, letter_id, canonical(record))
            pipe.zadd(self._keys.dead_order, {letter_id: time.time()}, nx=True)
            pipe.execute()
        self._remove(self._too_many())

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
        self._remove([letter_id])

    def _too_many(self) -> list[str]:
        with answering():
            return [str(one) for one in cast(list[str], self._connect().zrange(self._keys.dead_order, 0, -MOST - 1))]

    def _remove(self, letter_ids: list[str]) -> None:
        if letter_ids:
            with answering(), self._connect().pipeline(transaction=True) as pipe:
                pipe.hdel(self._keys.dead, *letter_ids)
                pipe.zrem(self._keys.dead_order, *letter_ids)
                pipe.execute()
