"""Dead letters on Redis: one hash, a letter a field."""

from collections.abc import Callable
from typing import Any, cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering
from roboco.domain.canonical import canonical
from roboco.domain.letter import DeadLetter


class RedisDeadLetters:
    """Messages that nobody delivers any more. `connect` is asked for a client each time."""

    def __init__(self, connect: Callable[[], redis.Redis], keys: Keys) -> None:
        self._connect = connect
        self._keys = keys

    def bury(self, letter: DeadLetter) -> None:
        """Keep the letter, in place of one with the same id; TransientError if it could not be kept."""
        self.bury_record(letter.model_dump(mode="json"))

    def bury_record(self, record: dict[str, Any]) -> None:
        """Keep a letter that is JSON already."""
        with answering():
            self._connect().hset(self._keys.dead, str(record["letter_id"]), canonical(record))

    def letters(self) -> list[DeadLetter]:
        """All letters, oldest first."""
        with answering():
            stored = cast(dict[str, str], self._connect().hgetall(self._keys.dead))
        return sorted(map(DeadLetter.model_validate_json, stored.values()), key=lambda letter: letter.time)

    def remove(self, letter_id: str) -> None:
        """Forget the letter, if it is there."""
        with answering():
            self._connect().hdel(self._keys.dead, letter_id)
