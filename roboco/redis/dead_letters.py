"""Dead letters on Redis: a hash of letters, their ids in the order of storing, and their sizes."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, cast

import redis
from pydantic import ValidationError

from roboco.domain.canonical_json import canonical_json, well_formed
from roboco.domain.dead_letter import DeadLetter
from roboco.errors import UsageError
from roboco.ports.dead_letters import DeadLetterPage
from roboco.redis.keys import Keys
from roboco.redis.scripts import call_script, translating_errors

MAX_LETTERS: Final = 1000
"""Letters that Redis keeps: a faulty producer in a loop must not fill Redis."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all letters together. Above it, the oldest letters are removed."""
MAX_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of the letters of a page, unless its first letter alone has more."""
_CURSOR: Final = re.compile(r"(?P<time>[0-9]{1,16}(\.[0-9]{1,16})?(e\+?[0-9]{1,2})?):(?P<id>[A-Za-z0-9_-]{1,64})")


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
        return None if stored is None else next(iter(self._parse({letter_id: stored})))

    def entries(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""
        with translating_errors():
            stored = cast(dict[str, str], self._connect().hgetall(self._keys.dead_letters))
        return sorted(self._parse(stored), key=lambda letter: letter.time)

    def count(self) -> int:
        """Return the number of letters."""
        with translating_errors():
            return self._connect().hlen(self._keys.dead_letters)

    def page(self, limit: int, cursor: str = "") -> DeadLetterPage:
        """Return at most `limit` letters and 1 MiB, and at least one letter if there is one, newest first."""
        last = _CURSOR.fullmatch(cursor)
        if cursor and last is None:
            raise UsageError(f"cursor {cursor[:80]!r} is none of a page of dead letters: leave it out")
        stored_at, letter_id = ("+inf", "") if last is None else last.group("time", "id")
        *found, more = self._run("dead_letter_page", limit, MAX_PAGE_BYTES, stored_at, letter_id)
        rows = list(zip(found[::3], found[1::3], found[2::3], strict=True))
        following = f"{rows[-1][1]}:{rows[-1][0]}" if more else ""
        letters = [_parsed(letter) or _unreadable(name, at, letter) for name, at, letter in rows if letter]
        return DeadLetterPage(letters, following)

    def remove(self, letter_id: str) -> None:
        """Remove the letter, if there is one with this id."""
        self._run("dead_letter_remove", letter_id)

    def _parse(self, stored: dict[str, str]) -> list[DeadLetter]:
        """Return the stored letters. Cost: one range of at most MAX_LETTERS times if one of them cannot be read."""
        found = {letter_id: _parsed(letter) for letter_id, letter in stored.items()}
        if None not in found.values():
            return [letter for letter in found.values() if letter is not None]
        with translating_errors():
            times: Any = self._connect().zrange(self._keys.dead_letter_order, 0, -1, withscores=True)
        at = dict(times)
        return [one or _unreadable(name, at.get(name, 0.0), stored[name]) for name, one in found.items()]

    def _run(self, name: str, *arguments: str | float) -> Any:
        keys = [self._keys.dead_letters, self._keys.dead_letter_order, self._keys.dead_letter_sizes]
        with translating_errors():
            return call_script(self._connect(), name, keys, arguments)


def _parsed(stored: str) -> DeadLetter | None:
    """Return a stored letter, or None if this release cannot read it."""
    try:
        return DeadLetter.model_validate_json(stored)
    except ValidationError:
        return None


def _unreadable(letter_id: str, stored_at: str | float, stored: str) -> DeadLetter:
    """Return a letter in place of one that cannot be read, so that an operator can find and dismiss it."""
    reason = (
        "this release cannot read this letter, which another release has stored: read it with that one, or dismiss it"
    )
    at = datetime.fromtimestamp(float(stored_at), UTC)
    return DeadLetter(letter_id=letter_id, reason=reason, time=at, truncated=True, size=len(stored))
