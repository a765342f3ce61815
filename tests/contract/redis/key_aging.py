"""Aging of Redis keys: a test cannot move the clock of a Redis server, so it moves the stored times into the past."""

from collections.abc import Iterable
from typing import Any

import redis

_TIME_FIELDS = ("dispatched_at", "cancel_requested_at", "deferred_until")
"""Fields of a task's hash that hold Unix seconds."""


def age_keys(client: redis.Redis, names: list[str], seconds: float) -> None:
    """Make the keys older by these seconds: reduce their times to live, and the times in their values."""
    for name in names:
        _age_contents(client, name, seconds)
        left: Any = client.pttl(name)
        if left >= 0:
            client.pexpire(name, max(0, left - round(seconds * 1000)))


def _age_contents(client: Any, name: str, seconds: float) -> None:
    match name.rpartition(":")[2]:
        case "state":
            _age_fields(client, name, _TIME_FIELDS, seconds)
        case "schedule_fill":
            _age_fields(client, name, ("until",), seconds)
        case "tasks" | "jobs":
            _age_scores(client, name, seconds)
        case "asked":
            _age_scores(client, name, seconds * 1000)
        case "until":
            client.set(name, round(float(client.get(name)) - seconds * 1000), keepttl=True)
        case _:
            pass


def _age_fields(client: Any, name: str, fields: Iterable[str], seconds: float) -> None:
    for field in fields:
        if stored := client.hget(name, field):
            client.hset(name, field, f"{float(stored) - seconds:.6f}")


def _age_scores(client: Any, name: str, by: float) -> None:
    scores = client.zrange(name, 0, -1, withscores=True)
    client.zadd(name, {member: score - by for member, score in scores})
