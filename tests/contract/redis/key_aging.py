"""Let time pass for the keys of a Redis whose clock a test cannot move: what they hold moves into the past instead."""

from typing import Any

import redis

_TIMES = ("dispatched_at", "cancel_requested_at", "deferred_until")
"""Fields of a task's hash that hold Unix seconds."""


def pass_time(client: redis.Redis, names: list[str], seconds: float) -> None:
    """Make each of the keys so many seconds older: times to live, and the times that the keys hold."""
    for name in names:
        _age_contents(client, name, seconds)
        left: Any = client.pttl(name)
        if left >= 0:
            client.pexpire(name, max(0, left - round(seconds * 1000)))


def _age_contents(client: Any, name: str, seconds: float) -> None:
    match name.rpartition(":")[2]:
        case "state":
            for field in _TIMES:
                if stored := client.hget(name, field):
                    client.hset(name, field, f"{float(stored) - seconds:.6f}")
        case "schedule" | "scheduled_jobs":
            _age_scores(client, name, seconds)
        case "asked":
            _age_scores(client, name, seconds * 1000)
        case "until":
            client.set(name, round(float(client.get(name)) - seconds * 1000), keepttl=True)
        case _:
            pass


def _age_scores(client: Any, name: str, by: float) -> None:
    scores = client.zrange(name, 0, -1, withscores=True)
    client.zadd(name, {member: score - by for member, score in scores})
