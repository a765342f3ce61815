"""limits: the limits of a caller and of its tenant, for all gateway processes together.

    request ─► admit ─────────► counted (RateLimit), or 429 with Retry-After
    task ────► create_task ───► usage of the day, open tasks
    message, result of a client tool ─► check_usage ───► usage of the day
    stream ──► open_stream ───► leased to this process; StreamLeases renews
    Redis does not answer ────► 503
    Redis refuses to count ───► reads, stops, erasures and operators pass

If Redis does not answer, reads are refused, too. Almost each of them needs Redis anyway, and without counts a caller
could exhaust the store. `Principal.limits` are a caller's own limits or those of the settings, whichever are lower.
"""

import math
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from roboco.client.caller_accounts import Account, CallerAccounts, LimitReached, RefusedWrites
from roboco.domain.access_key import CallerLimits
from roboco.domain.day_budget import DayBudget
from roboco.domain.usage import next_day
from roboco.gateway.calls import RECEIVED, Calls
from roboco.gateway.principal import Principal
from roboco.gateway.problem import rate_limited
from roboco.gateway.settings import GatewaySettings
from roboco.gateway.stream_leases import StreamLeases


class CallerLimiter:
    """Applies limits to callers. A caller that is not `limited` has none."""

    def __init__(self, accounts: CallerAccounts, settings: GatewaySettings, calls: Calls) -> None:
        self._accounts = accounts
        self._line = calls.limits
        self._of_tenant = settings.tenant_limits
        self.streams = StreamLeases(accounts.counts, calls.limits)

    async def admit(self, caller: Principal, size: int, is_essential: bool = False) -> dict[str, str]:
        """Count a request with a body of this many bytes. Return headers of its response.

        An essential one passes uncounted if Redis refuses to count. Raise Problem `rate_limited` if a limit is reached,
        and `unavailable` if Redis does not answer.
        """
        if not caller.limited:
            return {}
        account = self.account(caller)
        try:
            found = await self._line.run(self._accounts.counts.admit, account, size)
        except RefusedWrites:
            if is_essential:
                return {}
            raise
        if isinstance(found, LimitReached):
            raise rate_limited(found.limit, found.seconds)
        limit = account.own.requests_per_minute
        if limit is None or found.remaining is None:
            return {}
        rest = f'"requests";r={found.remaining};t={math.ceil(found.seconds)}'
        return {"RateLimit-Policy": f'"requests";q={limit};w=60', "RateLimit": rest}

    async def charge(self, caller: Principal, size: int) -> None:
        """Count bytes that a request did not announce. They delay the caller's next request."""
        if caller.limited and size:
            await self._line.run(self._accounts.counts.charge, self.account(caller), size)

    def open_stream(self, caller: Principal) -> AbstractAsyncContextManager[None]:
        """Return an async context manager that holds one of the caller's streams.

        Entering it raises Problem `rate_limited` if there are too many. It leaves without waiting.
        """
        return self.streams.stream(self.account(caller) if caller.limited else None)

    async def create_task(self, caller: Principal, task_id: str) -> None:
        """Count a task that the caller is about to create, before it is submitted. Idempotent for a task id.

        Raise Problem `rate_limited` if the caller has too many open tasks, or has used the tokens or the cost of the
        day. Call `cancel_task` if the submission is refused.
        """
        await self.check_usage(caller)
        account = self.account(caller)
        if caller.limited and _limits_tasks(account):
            refused = await self._line.run(self._accounts.add_task, account, task_id, RECEIVED.get())
            if refused is not None:
                raise rate_limited(refused.limit, refused.seconds)

    async def cancel_task(self, caller: Principal, task_id: str) -> None:
        """Stop counting a task whose submission was refused, so that nothing was stored."""
        account = self.account(caller)
        if caller.limited and _limits_tasks(account):
            await self._line.run(self._accounts.remove_task, account, task_id)

    async def check_usage(self, caller: Principal) -> None:
        """Raise Problem `rate_limited` if the caller or its tenant has used the tokens or the cost of the day."""
        account = self.account(caller)
        limits = (("", account.own), ("tenant_", account.shared if account.tenant else CallerLimits()))
        if not caller.limited or not any(of.tokens_per_day or of.cost_per_day for _, of in limits):
            return
        spent = await self._line.run(self._accounts.usage_today, account)
        for (prefix, of), used in zip(limits, spent, strict=True):
            reached, now = DayBudget(of.cost_per_day, of.tokens_per_day).reached(used), datetime.now(UTC)
            if reached is not None:
                raise rate_limited(prefix + reached.limit, (next_day(now) - now).total_seconds())

    def account(self, caller: Principal) -> Account:
        """Return the caller's account: its own limits, and those of its tenant."""
        return Account(caller.tenant or "", caller.by, caller.limits, self._of_tenant)


def _limits_tasks(account: Account) -> bool:
    return any(of.open_tasks or of.open_bytes for of in (account.own, account.shared))
