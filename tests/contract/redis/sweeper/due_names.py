"""The due entries of a schedule, read with claims."""

from roboco.domain.shard import SHARDS
from roboco.ports.schedule import Schedule


def due_names(schedule: Schedule, limit: int = 10) -> list[str]:
    """Return at most `limit` due entries of all shards, earliest first. Keep their times, to within a millisecond."""
    claimed = [entry for shard in range(SHARDS) for entry in schedule.claim(shard, limit, 3600.0)]
    for entry in claimed:
        schedule.set(entry.name, -entry.overdue)
    return [entry.name for entry in sorted(claimed, key=lambda entry: -entry.overdue)][:limit]
