"""Rate limits on Redis: the requests to each model in the last minute, and the tickets that wait for admission.

    a turn ─► the team's own bucket ─► the operator's bucket ─► the model's server
              (tenant, team, limits)   (address and model; fair across tenants)

The operator's bucket is a fair queue across tenants: a tenant with many waiting tickets does not delay the others; see
`lua/_bucket.lua`, and `lua/_usage.lua` for the counting. All buckets of a model at an address share a slot of a
cluster, so that one script sees both.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.day_budget import DayBudget
from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelLimit, ModelLimits, ModelProfile
from roboco.domain.usage import DayUsage, billionths
from roboco.ports.rate_limits import MAX_RESUMED_TASKS, RESERVATION_SECONDS, Admission, Admitted, Queued, Ticket
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors

WINDOW_SECONDS = 61.0
"""Seconds in which the limits apply: a minute, plus the time that a request may take to reach its server."""
SLOT_SECONDS = 1.0
"""Seconds of a slot in which requests are counted together."""
RETRY_DELAY = 65.0
"""Seconds, more than a window, after which a ticket asks again, or a quarter of its expected wait if that is longer."""
WAITING_TASKS_TTL = 172_800
"""Seconds for which Redis keeps the tasks that wait for a reply. The sweeper adds each again at least once a day."""
TICKET_GRACE = 15.0
"""Seconds after its due time at which a ticket that has not asked again loses its place."""
DAY_TTL: Final = 2 * 86_400
"""Seconds for which the sums of a day are kept after their last change."""


@dataclass(frozen=True)
class Bucket:
    """A limit that requests share."""

    model: str
    team: str
    """The team that the limit belongs to, or "" for the operator's limit."""
    keys: tuple[str, ...]
    """The Redis keys of its usage and of its queue."""
    requests: int | None
    """Requests for each minute, or None if unlimited."""
    tokens: int | None
    """Tokens for each minute, or None if unlimited."""

    @property
    def limits(self) -> tuple[int | str, int | str]:
        """Requests and tokens for each minute, as arguments of scripts."""
        return self.requests or "", self.tokens or ""


class Buckets:
    """The buckets that limit requests, and the Redis keys of rate limits."""

    def __init__(self, keys: Keys, limits: ModelLimits) -> None:
        self._keys = keys
        self._limits = limits

    def of(self, profile: ModelProfile, tenant: str, team: str) -> list[Bucket]:
        """Return the buckets that limit a request with this profile: the team's own, then the operator's."""
        limit, server = self._limits.for_profile(profile), self.server(profile)
        own = (profile.requests_per_minute, profile.tokens_per_minute)
        name = _digest(tenant, team, profile.base_url, profile.key_name(tenant) or None, *own)
        teams = Bucket(profile.model, team, self._keys.bucket(server, name), *own)
        operators = Bucket(profile.model, "", self._keys.bucket(server, "all"), limit.requests, limit.tokens)
        return [one for one in (teams, operators) if one.requests or one.tokens]

    def of_operator(self) -> list[Bucket]:
        """Return the buckets of all limits of the operator."""
        return [
            Bucket(one.model, "", self._keys.bucket(_server(one), "all"), one.requests, one.tokens)
            for one in self._limits.entries
        ]

    def all_or_unlimited(self, profile: ModelProfile, tenant: str, team: str) -> list[Bucket]:
        """Return the buckets of a request, or one without limits: its server may still demand a pause."""
        none = Bucket(profile.model, "", self._keys.bucket(self.server(profile), "all"), None, None)
        return self.of(profile, tenant, team) or [none]

    def pause_key(self, profile: ModelProfile, tenant: str) -> str:
        """Return the key of a pause that a model server demands. Pauses apply to one API key of the server."""
        return self._keys.paused_until(self.server(profile), profile.key_name(tenant))

    def waiting_tasks_key(self, profile: ModelProfile, tenant: str) -> str:
        """Return the key of the tasks that wait for a reply of a model to a request with the same API key."""
        return self._keys.awaiting_reply(self.server(profile), profile.key_name(tenant))

    def admission_key(self, profile: ModelProfile, ticket: Ticket) -> str:
        """Return the key of the admission of a ticket."""
        return self._keys.admission(self.server(profile), ticket.name)

    def server(self, profile: ModelProfile) -> str:
        """Return the part of keys that names the profile's model at its address."""
        return _server(self._limits.for_profile(profile))


class RedisRateLimiter:
    """A rate limiter: it counts the requests of the last `window` seconds in slots, and queues tickets behind them.

    `slot` is the width of a slot in seconds; all workers use the same.
    """

    def __init__(
        self,
        scripts: Scripts,
        keys: Keys,
        limits: ModelLimits,
        window: float = WINDOW_SECONDS,
        grace: float = TICKET_GRACE,
        slot: float = SLOT_SECONDS,
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._buckets = Buckets(keys, limits)
        self._window_ms = int(window * 1000)
        self._grace_ms = int(grace * 1000)
        self._slot_ms = int(slot * 1000)

    def reserve(self, profile: ModelProfile, ticket: Ticket, tokens: int) -> Admission:
        """Admit the request, or queue its ticket."""
        buckets = self._limiting_buckets(profile, ticket)
        names = [self._buckets.pause_key(profile, ticket.tenant), self._buckets.admission_key(profile, ticket)]
        names += [self._buckets.waiting_tasks_key(profile, ticket.tenant), *_bucket_keys(buckets)]
        times = (self._window_ms, int(RETRY_DELAY * 1000), self._grace_ms, self._slot_ms)
        request = (ticket.name, tokens, ticket.tenant)
        wait = self._scripts.run("rate_reserve", names, *request, *times, *_bucket_limits(buckets))
        return Queued(float(wait) / 1000) if wait > 0 else Admitted(tasks_waiting=wait < 0)

    def record_usage(self, profile: ModelProfile, ticket: Ticket, tokens: int, seconds_ago: float = 0.0) -> None:
        """Record the tokens that the ticket's request has used, and that it was sent `seconds_ago` seconds ago.

        Without a limit of tokens nothing changes: the request counts from its admission.
        """
        buckets = self._limiting_buckets(profile, ticket)
        if any(bucket.tokens for bucket in buckets):
            names = [self._buckets.admission_key(profile, ticket), *(bucket.keys[0] for bucket in buckets)]
            times = (int(seconds_ago * 1000), self._window_ms, self._slot_ms)
            self._scripts.run("rate_record", names, tokens, *times, *(bucket.tokens or "" for bucket in buckets))

    def release(self, profile: ModelProfile, ticket: Ticket) -> None:
        """Remove a waiting ticket, whose request will not be sent."""
        if buckets := self._limiting_buckets(profile, ticket):
            self._scripts.run("rate_release", _bucket_keys(buckets), ticket.name)

    def add_waiting_task(self, profile: ModelProfile, task_id: str) -> None:
        """Record that the task is paused until the profile's model answers a request with its API key."""
        name = self._buckets.waiting_tasks_key(profile, tenant_of(task_id))
        with translating_errors(), self._scripts.client.pipeline(transaction=False) as pipe:
            pipe.zadd(name, {task_id: time.time()}, nx=True)
            pipe.expire(name, WAITING_TASKS_TTL)
            pipe.execute()

    def waiting_tasks(self, profile: ModelProfile, tenant: str) -> list[str]:
        """Return at most MAX_RESUMED_TASKS that wait for a reply of this model, those that wait longest first."""
        name = self._buckets.waiting_tasks_key(profile, tenant)
        with translating_errors():
            found: Any = self._scripts.client.zrange(name, 0, MAX_RESUMED_TASKS - 1)
            return [str(task_id) for task_id in found]

    def remove_waiting_tasks(self, profile: ModelProfile, tenant: str, task_ids: Sequence[str]) -> None:
        """Record that these tasks no longer wait for a reply."""
        if task_ids:
            with translating_errors():
                self._scripts.client.zrem(self._buckets.waiting_tasks_key(profile, tenant), *task_ids)

    def pause(self, profile: ModelProfile, tenant: str, seconds: float) -> None:
        """Hold back all requests to the profile's server with its API key for these seconds. A longer pause remains."""
        self._scripts.run("rate_pause", [self._buckets.pause_key(profile, tenant)], math.ceil(seconds * 1000))

    def _limiting_buckets(self, profile: ModelProfile, ticket: Ticket) -> list[Bucket]:
        return self._buckets.of(profile, ticket.tenant, ticket.team)

    def count_day(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task, unless a newer one is stored. Cost: one script."""
        tenant, day = tenant_of(task_id), used.day
        names = [self._keys.tenant_of_callers(tenant, f"usage:tasks:{day}"), *self._budget_keys(tenant, day)]
        names += self._budget_keys(tenant, day, by) if by else []
        self._scripts.run("day_usage_count", names, task_id, DAY_TTL, steps, used.tokens, used.cost_billionths)

    def reserve_day(self, task_id: str, wanted: DayUsage, budget: DayBudget | None) -> DayUsage | None:
        """Reserve the usage of the task's next reply, or end its reservation. Cost: one script."""
        limits = budget or DayBudget()
        found = self._scripts.run(
            "day_reserve",
            self._budget_keys(tenant_of(task_id), wanted.day),
            task_id,
            RESERVATION_SECONDS if budget else 0,
            DAY_TTL,
            wanted.tokens,
            wanted.cost_billionths,
            "" if limits.tokens is None else limits.tokens,
            "" if limits.cost is None else billionths(limits.cost),
        )
        return _reserved(wanted.day, found)

    def reserve_for_caller(self, task_id: str, by: str, steps: int, wanted: DayUsage) -> DayUsage | None:
        """Reserve the usage of the task's next reply within the limits of its caller. Cost: one script."""
        tenant = tenant_of(task_id)
        names = [*self._budget_keys(tenant, wanted.day, by), self._keys.caller(tenant, by, "usage:limits")]
        seconds = RESERVATION_SECONDS if wanted.tokens else 0
        amounts = (wanted.tokens, wanted.cost_billionths, "", "", steps)
        found = self._scripts.run("day_reserve", names, task_id, seconds, DAY_TTL, *amounts)
        return _reserved(wanted.day, found)

    def note_limits(self, tenant: str, by: str, limits: DayBudget) -> None:
        """Keep the limits of the caller for the reservations of its tasks. Cost: two commands in one round trip."""
        key, cost = self._keys.caller(tenant, by, "usage:limits"), limits.cost
        values: Any = {"tokens": limits.tokens or "", "billionths": "" if cost is None else billionths(cost)}
        with translating_errors(), self._scripts.client.pipeline() as pipe:
            pipe.hset(key, mapping=values)
            pipe.expire(key, DAY_TTL)
            pipe.execute()

    def _budget_keys(self, tenant: str, day: str, by: str | None = None) -> list[str]:
        names = (f"usage:spent:{day}", f"usage:reserved:{day}", f"usage:ends:{day}")
        of = partial(self._keys.caller, tenant, by) if by else partial(self._keys.tenant_of_callers, tenant)
        return [of(name) for name in names]

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the day. Cost: one HMGET."""
        with translating_errors():
            found: Any = self._scripts.client.hmget(self._budget_keys(tenant, day, by)[0], ["tokens", "billionths"])
        return DayUsage(day=day, tokens=int(found[0] or 0), cost_billionths=int(found[1] or 0))


def _reserved(day: str, found: Any) -> DayUsage | None:
    return DayUsage(day=day, tokens=int(found[0]), cost_billionths=int(found[1])) if found else None


def _bucket_keys(buckets: list[Bucket]) -> list[str]:
    return [key for bucket in buckets for key in bucket.keys]


def _bucket_limits(buckets: list[Bucket]) -> list[int | str]:
    return [limit for bucket in buckets for limit in bucket.limits]


def _server(limit: ModelLimit) -> str:
    """Return the part of keys that names a model at an address."""
    return _digest(limit.address, limit.model)


@lru_cache(maxsize=4096)
def _digest(*parts: str | int | None) -> str:
    return sha256(canonical_json(list(parts)))[:16]
