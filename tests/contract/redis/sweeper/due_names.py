"""The due entries of a schedule, read with claims, and their times."""

from typing import Any

from roboco.domain.ids import SHARDS
from roboco.ports.schedule import ClaimedEntry, Schedule
from roboco.redis.schedule import RedisSchedule
from tests.support.memory_ports.schedule import MemorySchedule


def due_at(schedule: Schedule, name: str) -> float | None:
    """Return the due time of an entry in Unix seconds, or None if it has none."""
    if isinstance(schedule, MemorySchedule):
        return schedule.due_at(name)
    assert isinstance(schedule, RedisSchedule)
    score: Any = schedule._client.zscore(schedule._key_of(name), name)
    return None if score is None else float(score)


def due_names(schedule: Schedule, limit: int = 10) -> list[str]:
    """Return at most `limit` due entries of all shards, earliest first. Keep their times, to within a millisecond."""
    claimed = claim_all(schedule, limit)
    for entry in claimed:
        schedule.set(entry.name, -entry.overdue)
    return [entry.name for entry in claimed][:limit]


def claim_all(schedule: Schedule, limit: int) -> list[ClaimedEntry]:
    """Claim due entries of all shards, at most `limit` of each, for an hour. Return them earliest first."""
    claimed = [entry for shard in range(SHARDS) for entry in schedule.claim(shard, limit, 3600.0)]
    return sorted(claimed, key=lambda entry: -entry.overdue)
