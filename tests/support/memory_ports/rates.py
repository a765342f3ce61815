"""Rate limits in memory: for each limit, the requests of the last minute and the waiting tickets, first come first.

Other than on Redis, tenants do not share the operator's limits fairly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from roboco.domain.day_budget import DayBudget
from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelLimit, ModelLimits, ModelProfile
from roboco.domain.usage import DayUsage, billionths
from roboco.ports.clock import Clock
from roboco.ports.rate_limits import (
    MAX_RESUMED_TASKS,
    RESERVATION_SECONDS,
    Admission,
    Admitted,
    Queued,
    RateLimiter,
    Ticket,
)
from tests.support.memory_ports.server import MemoryServer, StoredBucket, StoredRequest, StoredWait

WINDOW = 60.0
TICKET_GRACE = 15.0
MAX_RETRY_DELAY = 65.0


@dataclass(frozen=True)
class Bucket:
    """A limit and its state on the server."""

    limit: ModelLimit
    held: StoredBucket

    def size(self, tokens: int) -> int:
        """Return the tokens that a request counts for."""
        return tokens if self.limit.tokens is None else min(tokens, self.limit.tokens)

    def wait(self, ticket: Ticket, tokens: int, now: float, window: float) -> float:
        """Return the seconds until the ticket is admitted, behind those that wait longer."""
        ahead = list(takewhile(lambda name: name != ticket.name, self.held.waits))
        used = [self.held.waits[name].tokens for name in ahead]
        self.held.made = {name: one for name, one in self.held.made.items() if one.at > now - window}
        made = sorted((one.at, one.tokens) for one in self.held.made.values())
        waits = [0.0]
        if (most := self.limit.requests) is not None:
            waits.append(_until_free([(at, 1) for at, _ in made], len(ahead) + 1 + len(made) - most, most, window, now))
        if (most := self.limit.tokens) is not None:
            excess = sum(used) + self.size(tokens) + sum(count for _, count in made) - most
            waits.append(_until_free(made, excess, most, window, now))
        return max(waits)


def _until_free(made: list[tuple[float, int]], excess: int, most: int, window: float, now: float) -> float:
    if excess <= 0:
        return 0.0
    for at, used in made:
        excess -= used
        if excess <= 0:
            return max(0.001, at + window + 0.001 - now)
    return window + excess / most * window


class MemoryRates(RateLimiter):
    """A rate limiter over the requests of the last `window` seconds, which admits waiting tickets in order."""

    def __init__(
        self, server: MemoryServer, clock: Clock, window: float = WINDOW, limits: ModelLimits | None = None
    ) -> None:
        self._server = server
        self._clock = clock
        self._window = window
        self._limits = limits or ModelLimits()

    def reserve(self, profile: ModelProfile, ticket: Ticket, tokens: int) -> Admission:
        now = self._clock.now()
        with self._server as held:
            buckets = self._buckets(profile, ticket)
            at_once = Admitted(tasks_waiting=bool(held.awaiting.get(_key_of(profile, ticket.tenant))))
            if any(ticket.name in bucket.held.made for bucket in buckets):
                return at_once
            pause = max(0.0, held.paused_until.get(_key_of(profile, ticket.tenant), 0.0) - now)
            wait, seen = pause, []
            for bucket in buckets:
                seen.append(bucket)
                for name in [name for name, one in bucket.held.waits.items() if one.late < now and name != ticket.name]:
                    del bucket.held.waits[name]
                if (wait := max(pause, bucket.wait(ticket, tokens, now, self._window))) > 0:
                    break
            if wait > MAX_RETRY_DELAY:
                wait = max(MAX_RETRY_DELAY, wait / 4, pause)
            for bucket in seen:
                if wait > 0:
                    waiting = bucket.held.waits.setdefault(ticket.name, StoredWait(bucket.size(tokens)))
                    waiting.late = now + wait + TICKET_GRACE
                else:
                    bucket.held.waits.pop(ticket.name, None)
                    bucket.held.made[ticket.name] = StoredRequest(now, bucket.size(tokens))
            return Queued(wait) if wait > 0 else at_once

    def add_waiting_task(self, profile: ModelProfile, task_id: str) -> None:
        with self._server as held:
            held.awaiting.setdefault(_key_of(profile, tenant_of(task_id)), {}).setdefault(task_id, self._clock.now())

    def waiting_tasks(self, profile: ModelProfile, tenant: str) -> list[str]:
        with self._server as held:
            return sorted(held.awaiting.get(_key_of(profile, tenant), {}))[:MAX_RESUMED_TASKS]

    def remove_waiting_tasks(self, profile: ModelProfile, tenant: str, task_ids: Sequence[str]) -> None:
        with self._server as held:
            for task_id in task_ids:
                held.awaiting.get(_key_of(profile, tenant), {}).pop(task_id, None)

    def record_usage(self, profile: ModelProfile, ticket: Ticket, tokens: int, seconds_ago: float = 0.0) -> None:
        with self._server:
            for bucket in self._buckets(profile, ticket):
                if (request := bucket.held.made.get(ticket.name)) is not None:
                    request.tokens, request.at = tokens, max(request.at, self._clock.now() - seconds_ago)

    def release(self, profile: ModelProfile, ticket: Ticket) -> None:
        with self._server:
            for bucket in self._buckets(profile, ticket):
                bucket.held.waits.pop(ticket.name, None)

    def pause(self, profile: ModelProfile, tenant: str, seconds: float) -> None:
        with self._server as held:
            until = self._clock.now() + seconds
            name = _key_of(profile, tenant)
            held.paused_until[name] = max(until, held.paused_until.get(name, 0.0))

    def _buckets(self, profile: ModelProfile, ticket: Ticket) -> list[Bucket]:
        operators = self._limits.for_profile(profile)
        own = (profile.requests_per_minute, profile.tokens_per_minute)
        teams = ModelLimit(profile.model, operators.address, *own)
        names = [
            (ticket.tenant, ticket.team, profile.base_url, profile.model, *own),
            (operators.address, profile.model),
        ]
        held = self._server.held.buckets
        return [
            Bucket(limit, held.setdefault(repr(name), StoredBucket()))
            for limit, name in zip((teams, operators), names, strict=True)
            if limit.requests or limit.tokens
        ]

    def count_day(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        with self._server as held:
            stored = held.day_usages.get((task_id, used.day))
            if stored is None or stored[1] < steps:
                held.day_usages[task_id, used.day] = (by, steps, used)
                held.day_reservations.pop((task_id, used.day), None)
                if held.caller_reservations.get((task_id, used.day), (0, 0, steps))[2] < steps:
                    del held.caller_reservations[task_id, used.day]

    def note_limits(self, tenant: str, by: str, limits: DayBudget) -> None:
        with self._server as held:
            held.caller_limits[tenant, by] = limits

    def reserve_for_caller(self, task_id: str, by: str, steps: int, wanted: DayUsage) -> DayUsage | None:
        tenant = tenant_of(task_id)
        used, now = self.spent(tenant, wanted.day, by), self._clock.now()
        with self._server as held:
            known, own, budget = held.caller_reservations, (task_id, wanted.day), held.caller_limits.get((tenant, by))
            known.pop(own, None)
            if budget is None or not wanted.tokens:
                return None
            others = _sum(
                wanted.day,
                [
                    one
                    for (task, day), (until, one, _, of) in known.items()
                    if day == wanted.day and until > now and tenant_of(task) == tenant and of == by
                ],
            )
            if budget.reached(used) is not None or _is_full(used, others, wanted, budget):
                return others
            known[own] = (now + RESERVATION_SECONDS, wanted, steps, by)
            return None

    def reserve_day(self, task_id: str, wanted: DayUsage, budget: DayBudget | None) -> DayUsage | None:
        used, now = self.spent(tenant_of(task_id), wanted.day), self._clock.now()
        with self._server as held:
            known, own = held.day_reservations, (task_id, wanted.day)
            known.pop(own, None)
            if budget is None:
                return None
            same = [
                one
                for (task, day), (until, one) in known.items()
                if day == wanted.day and until > now and tenant_of(task) == tenant_of(task_id)
            ]
            others = _sum(wanted.day, same)
            if _is_full(used, others, wanted, budget):
                return others
            known[own] = (now + RESERVATION_SECONDS, wanted)
            return None

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        with self._server as held:
            known = [(tenant_of(task_id), one) for (task_id, at), one in held.day_usages.items() if at == day]
        used = [used for of, (creator, _, used) in known if of == tenant and by in (None, creator)]
        tokens, cost = sum(one.tokens for one in used), sum(one.cost_billionths for one in used)
        return DayUsage(day=day, tokens=tokens, cost_billionths=cost)


def _sum(day: str, same: list[DayUsage]) -> DayUsage:
    tokens, cost = sum(one.tokens for one in same), sum(one.cost_billionths for one in same)
    return DayUsage(day=day, tokens=tokens, cost_billionths=cost)


def _is_full(used: DayUsage, others: DayUsage, wanted: DayUsage, budget: DayBudget) -> bool:
    tokens = used.tokens + others.tokens + wanted.tokens
    cost = used.cost_billionths + others.cost_billionths + wanted.cost_billionths
    full = budget.tokens is not None and others.tokens > 0 and tokens > budget.tokens
    return full or (budget.cost is not None and others.cost_billionths > 0 and cost > billionths(budget.cost))


def _key_of(profile: ModelProfile, tenant: str) -> str:
    return repr((profile.base_url, profile.key_name(tenant), profile.model))
