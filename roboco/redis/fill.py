"""The record of a filling of the schedule on Redis: one hash, changed by compare-and-set on the token of its claim."""

from roboco.ports.fill import FillClaim, FillKind, FillPhase, FillPosition
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts

RECORD_TTL = 900.0
"""Seconds after the last claim for which Redis keeps the record. A later fill with the same mark begins anew."""


class RedisFillRecord:
    """The hash of the current fill: mark, position, token and end of the claim."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = [keys.schedule_fill]

    def claim(self, mark: str, first: FillPosition, token: str, seconds: float) -> FillClaim:
        """Claim the next page, by the clock of Redis."""
        arguments = (mark, _to_text(first), token, f"{seconds:.6f}", int(RECORD_TTL * 1000))
        stored, granted = self._scripts.run("fill_claim", self._keys, *arguments)
        return FillClaim(_parse_position(str(stored)), bool(granted))

    def advance(self, token: str, position: FillPosition, delay: float = 0.0) -> bool:
        """Store the next position, if the token still has the claim."""
        return bool(self._scripts.run("fill_advance", self._keys, token, _to_text(position), f"{delay:.6f}"))

    def finish(self, token: str) -> None:
        """Delete the hash, if the token still has the claim."""
        self._scripts.run("fill_finish", self._keys, token)


def _to_text(position: FillPosition) -> str:
    """Return the position as one line. The cursor is last: a name in the workspace may contain any character."""
    shards, missed = (",".join(map(str, sorted(part))) for part in (position.shards, position.missed))
    return "|".join((position.kind, position.phase, shards, missed, position.cursor))


def _parse_position(text: str) -> FillPosition:
    kind, phase, shards, missed, cursor = text.split("|", 4)
    return FillPosition(FillKind(kind), FillPhase(phase), cursor, _numbers(shards), _numbers(missed))


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, filter(None, text.split(","))))
