"""The live state of Redis for `roboco top` and other displays. It reads only as many entries as a display shows."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import redis

from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import SHARDS, tenant_of
from roboco.domain.rate_report import RateReport
from roboco.domain.team.model_profile import ModelLimits
from roboco.domain.team.team import Team
from roboco.ports.snapshot import TurnProgress
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import SLOT_SECONDS, WINDOW_SECONDS, Bucket, Buckets
from roboco.redis.scripts import translating_errors

MAX_RATES: Final = 200
"""Rate limits of which `rates` returns the usage."""
_FIELDS = (
    *("status", "phase", "agent", "seq", "attempt", "owner", "chunks", "emitted"),
    *("attempt_tokens_in", "attempt_tokens_out", "reason", "history_state", "epoch", "note_epoch", "note"),
)


@dataclass(frozen=True)
class LiveTask:
    """An open task at this moment."""

    task_id: str
    status: str
    agent: str
    seq: int
    attempt: int
    working: bool
    """True if a worker has claimed its turn, or its tool calls are pending."""
    reason: str
    tokens_in: int
    """Input tokens of its steps and of the reply so far."""
    tokens_out: int
    """Output tokens of its steps and of the reply so far."""
    cost: float
    started_at: float
    """Unix seconds."""
    followers: int
    """Connections that subscribe to its content channel."""
    silent_for: float = 0.0
    """Seconds since the model of its running turn last sent anything, as far as its worker has recorded it."""


class RedisMonitor:
    """Reads the live state in a few round trips each, with bounded cost."""

    def __init__(self, client: redis.Redis, keys: Keys, limits: ModelLimits) -> None:
        self._client = client
        self._keys = keys
        self._buckets = Buckets(keys, limits)

    def task_ids(self, limit: int) -> list[str]:
        """Return the ids of at most `limit` open tasks, earliest sweep first: those with running work lead.

        Cost: `limit` entries of each shard, in one round trip.
        """
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrange(self._keys.schedule(shard), 0, limit - 1, withscores=True)
            entries = [(float(at), str(task_id)) for page in pipe.execute() for task_id, at in page]
        return [task_id for _, task_id in sorted(entries)[:limit]]

    def tasks(self, limit: int) -> list[LiveTask]:
        """Return at most `limit` open tasks, in the order of `task_ids`."""
        task_ids = self.task_ids(limit)
        if not task_ids:
            return []
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for task_id in task_ids:
                pipe.hmget(self._keys.state(task_id), _FIELDS)
            pipe.pubsub_numsub(*map(self._keys.content, task_ids))
            *states, followers = pipe.execute()
        found = zip(task_ids, states, followers, strict=True)
        known = ((task_id, fields, int(count)) for task_id, fields, (_, count) in found if fields[0] is not None)
        return [_live_task(*one) for one in known]

    def rates(self, tasks: Iterable[tuple[str, Team]], all_of_operator: bool = False) -> list[RateReport]:
        """Return the usage of the rate limits of these tasks: those of their teams and those of the operator.

        With `all_of_operator` those of the operator that no task uses are added. A model without limits is listed only
        while its server demands a pause. Cost: one round trip, and the 61 slots of each of 200 limits at most.
        """
        buckets = {bucket.keys: bucket for bucket in (self._buckets.of_operator() if all_of_operator else ())}
        pauses: dict[tuple[str, ...], set[str]] = {}
        for task_id, team in tasks:
            for profile in team.models.values():
                for bucket in self._buckets.all_or_unlimited(profile, tenant_of(task_id), team.name):
                    buckets[bucket.keys] = bucket
                    pauses.setdefault(bucket.keys, set()).add(self._buckets.pause_key(profile, tenant_of(task_id)))
        limits = [(bucket, sorted(pauses.get(keys, ()))) for keys, bucket in buckets.items()][:MAX_RATES]
        return [one for one in self._usage(limits) if one.max_requests or one.max_tokens or one.pause_left]

    def _usage(self, limits: list[tuple[Bucket, list[str]]]) -> list[RateReport]:
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for bucket, pauses in limits:
                used, queue, *_ = bucket.keys
                pipe.hgetall(used)
                pipe.zcard(queue)
                for pause in pauses:
                    pipe.get(pause)
            answers = iter(pipe.execute())
        now = time.time()
        return [
            _rate_report(bucket, next(answers), next(answers), [next(answers) for _ in pauses], now)
            for bucket, pauses in limits
        ]


def _rate_report(
    bucket: Bucket, slots: dict[str, str], waiting: int, pauses: list[str | None], now: float
) -> RateReport:
    first = (now - WINDOW_SECONDS) / SLOT_SECONDS
    by_slot = [(name, int(count)) for name, count in slots.items() if name[:-1].isdigit()]
    counted = [(name[-1], count) for name, count in by_slot if int(name[:-1]) >= first]
    return RateReport(
        model=f"{bucket.model} ({bucket.team})" if bucket.team else bucket.model,
        requests=sum(count for kind, count in counted if kind == "r"),
        max_requests=bucket.requests,
        tokens=sum(count for kind, count in counted if kind == "t") if bucket.tokens else None,
        max_tokens=bucket.tokens,
        waiting=int(waiting),
        pause_left=max(0.0, *(float(until or 0) / 1000 - now for until in pauses)) if pauses else 0.0,
    )


def _live_task(task_id: str, fields: Sequence[str | None], followers: int) -> LiveTask:
    values = {name: value or "" for name, value in zip(_FIELDS, fields, strict=True)}
    state = TaskState.model_validate_json(values["history_state"])
    speaks = values["phase"] == "turn" and values["emitted"] not in ("", "0")
    noted = values["owner"] != "" and values["note_epoch"] == values["epoch"]
    progress = TurnProgress.parse(values["note"]) if noted else None
    return LiveTask(
        task_id=task_id,
        status=values["status"],
        agent=values["agent"],
        seq=int(values["seq"]),
        attempt=int(values["attempt"]),
        working=values["owner"] != "" or values["phase"] == "tools",
        reason=values["reason"],
        tokens_in=state.tokens_in + (int(values["attempt_tokens_in"] or 0) if speaks else 0),
        tokens_out=state.tokens_out + (int(values["attempt_tokens_out"] or 0) if speaks else 0),
        cost=state.cost,
        started_at=state.started_at.timestamp() if state.started_at else 0.0,
        followers=followers,
        silent_for=0.0 if progress is None else max(0.0, time.time() - progress.heard_at),
    )
