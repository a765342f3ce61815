"""RedisPicture: what stands in Redis at this moment, for people; only as much is read as is shown."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.rates import WINDOW, server_of
from roboco.adapters.redis.scripts import answering
from roboco.domain.model_profile import ModelProfile
from roboco.domain.state import TaskState

_MOST_TICKETS = 2000
"""Of a model with more requests a minute than these the tokens are not added up."""
_FIELDS = ("status", "phase", "agent", "seq", "attempt", "owner", "chunks", "emitted", "sent", "said", "reason", "fold")


@dataclass(frozen=True)
class TaskNow:
    """An open task. `working` says whether a worker is at it; tokens are those of its steps, and of the answer so far.

    `followers` are the connections that follow its text.
    """

    task_id: str
    status: str
    agent: str
    seq: int
    attempt: int
    working: bool
    reason: str
    tokens_in: int
    tokens_out: int
    cost: float
    started_at: float
    followers: int


@dataclass(frozen=True)
class RateNow:
    """What was asked of a model in the last minute; None where that is not limited, or not counted for its number."""

    model: str
    requests: int
    most_requests: int | None
    tokens: int | None
    most_tokens: int | None
    waiting: int
    held_back: float


class RedisPicture:
    """Bounded reads, a few round trips each."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def open_tasks(self) -> int:
        """How many tasks have not ended."""
        with answering():
            return int(self._client.zcard(self._keys.agenda))

    def tasks(self, most: int) -> list[TaskNow]:
        """Open tasks, at most so many: those that are looked after soonest, which those at work are."""
        with answering():
            task_ids = [str(one) for one in self._client.zrange(self._keys.agenda, 0, most - 1)]
        if not task_ids:
            return []
        with answering(), self._client.pipeline(transaction=False) as pipe:
            for task_id in task_ids:
                pipe.hmget(self._keys.state(task_id), _FIELDS)
            pipe.pubsub_numsub(*map(self._keys.content, task_ids))
            *states, followers = pipe.execute()
        found = zip(task_ids, states, followers, strict=True)
        return [_task(task_id, fields, int(count)) for task_id, fields, (_, count) in found if fields[0] is not None]

    def dead_letters(self) -> int:
        """How many dead letters there are."""
        with answering():
            return int(self._client.hlen(self._keys.dead))

    def rates(self, profiles: Iterable[ModelProfile]) -> list[RateNow]:
        """How much of their limits the profiles use; those without limits, and not held back, are left out."""
        servers = {server_of(profile): profile for profile in profiles}
        found = (self._rate(server, profile) for server, profile in servers.items())
        return [one for one in found if one.most_requests or one.most_tokens or one.held_back]

    def _rate(self, server: str, profile: ModelProfile) -> RateNow:
        keys, now = self._keys, time.time()
        with answering(), self._client.pipeline(transaction=False) as pipe:
            pipe.zcount(keys.asked(server), (now - WINDOW) * 1000, now * 1000)
            pipe.zcount(keys.asked(server), f"({now * 1000}", "+inf")
            pipe.zrangebyscore(keys.asked(server), (now - WINDOW) * 1000, now * 1000, 0, _MOST_TICKETS)
            pipe.get(keys.held_back(server))
            made, waiting, tickets, until = pipe.execute()
        return RateNow(
            model=profile.model,
            requests=int(made),
            most_requests=profile.requests_per_minute,
            tokens=self._tokens(server, tickets) if profile.tokens_per_minute and made <= _MOST_TICKETS else None,
            most_tokens=profile.tokens_per_minute,
            waiting=int(waiting),
            held_back=max(0.0, float(until or 0) / 1000 - now),
        )

    def _tokens(self, server: str, tickets: Sequence[str]) -> int:
        if not tickets:
            return 0
        with answering():
            counted: Any = self._client.hmget(self._keys.asking(server), list(tickets))
        return sum(int(one or 0) for one in counted)


def _task(task_id: str, fields: Sequence[str | None], followers: int) -> TaskNow:
    told = {name: value or "" for name, value in zip(_FIELDS, fields, strict=True)}
    state = TaskState.model_validate_json(told["fold"])
    speaks = told["phase"] == "turn" and told["emitted"] not in ("", "0")
    return TaskNow(
        task_id=task_id,
        status=told["status"],
        agent=told["agent"],
        seq=int(told["seq"]),
        attempt=int(told["attempt"]),
        working=told["owner"] != "" or told["phase"] == "tools",
        reason=told["reason"],
        tokens_in=state.tokens_in + (int(told["sent"] or 0) if speaks else 0),
        tokens_out=state.tokens_out + (int(told["said"] or 0) if speaks else 0),
        cost=state.cost,
        started_at=state.started_at.timestamp() if state.started_at else 0.0,
        followers=followers,
    )
