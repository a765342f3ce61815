"""AccessKey: a key of the HTTP gateway, as the workspace stores it, and the text that its owner sends.

The text is `rbk_ID_SECRET`. The record holds the SHA-256 of the secret alone. The secret has 256 random bits, so its
digest cannot be guessed and needs no salt and no slow hash.
"""

import hmac
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field

from roboco.domain.canonical_json import sha256
from roboco.domain.limits import Amount, Count
from roboco.domain.schema import InputModel, Name, RecordModel

KEY_PREFIX: Final = "rbk"
MAX_KEY_LENGTH: Final = 200
"""Characters of a key's text."""
_KEY_ID = re.compile(r"[a-z0-9]{8,32}")
_KEY_TEXT = re.compile(rf"{KEY_PREFIX}_({_KEY_ID.pattern})_([A-Za-z0-9]{{32,128}})")


class Scope(StrEnum):
    """A kind of requests. A key has those that it needs."""

    SUBMIT = "submit"
    """Create tasks of named teams."""
    READ = "read"
    """List, read and follow tasks."""
    CONTROL = "control"
    """Send messages, interrupt, stop, pause, resume, fork, change limits, and answer client tools."""
    APPROVE = "approve"
    """Approve and deny tool calls, and resolve calls with an unknown outcome."""
    TEAMS = "teams"
    """Submit team objects, whose prompts, tools and model servers the caller chooses."""
    NOTIFY = "notify"
    """Name callbacks and webhooks that are called when a task ends or waits."""
    PRIORITY = "priority"
    """Submit tasks with high priority, which precede those of others."""
    OPERATE = "operate"
    """Everything that concerns all tenants: queues, workers, rates and dead letters."""


DEFAULT_SCOPES: Final = (Scope.SUBMIT, Scope.READ, Scope.CONTROL, Scope.APPROVE)
"""The scopes of a key that names none."""


class CallerLimits(InputModel):
    """Limits of a caller of the gateway, or of a tenant. None is no limit."""

    requests_per_minute: Count | None = None
    """Requests; as many at once, and then as many a minute."""
    bytes_per_minute: Count | None = None
    """Bytes of requests. A larger body is accepted whole; the next one waits until it is paid for."""
    open_streams: Count | None = None
    """Streams that are open at the same time."""
    open_tasks: Count | None = None
    """Tasks created through the gateway that have not ended."""
    open_bytes: Count | None = None
    """Bytes of the requests that have created these tasks; 160 KB of each at most, as much as Redis keeps of a task."""
    tokens_per_day: Count | None = None
    """Tokens of models that its tasks use in a day (UTC)."""
    cost_per_day: Amount | None = None
    """Money that its tasks cost in a day (UTC), in the currency of the prices."""
    max_steps: Count | None = None
    """Steps of each task."""
    max_tokens: Count | None = None
    """Tokens of each task."""
    max_cost: Amount | None = None
    """Cost of each task."""
    max_seconds: Amount | None = None
    """Seconds of each task from its submission on."""

    def tighter(self, other: "CallerLimits") -> "CallerLimits":
        """Return the lower one of each pair of limits."""
        both = {name: _lower(getattr(self, name), getattr(other, name)) for name in CallerLimits.model_fields}
        return CallerLimits.model_validate(both)

    def task_limits(self) -> dict[str, Any]:
        """Return the limits of each task that are set, as `Limits` names them."""
        limits = self.model_dump(include={"max_steps", "max_tokens", "max_cost", "max_seconds"})
        return {name: value for name, value in limits.items() if value is not None}


def _lower(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


class AccessKey(RecordModel):
    """A key without its secret."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    id: Annotated[str, Field(pattern=rf"^{_KEY_ID.pattern}$")]
    """The public part, which histories and logs name."""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    """SHA-256 of the secret."""
    name: Annotated[str, Field(max_length=100)] = ""
    """The purpose or the owner, for people."""
    tenant: str | None = None
    """The tenant whose tasks it reaches, or None for all tasks."""
    scopes: tuple[str, ...] = ()
    """The kinds of requests that it allows. A release ignores those that it does not know."""
    teams: tuple[str, ...] | None = None
    """The names of the teams that it may submit and reach, or None for all."""
    functions: tuple[str, ...] | None = None
    """The functions that its team objects may name, as "package.module:function", or None for all."""
    utility_model: Name | None = None
    """The profile that answers the side requests of its chat front end, in teams that have one of this name."""
    limits: CallerLimits = CallerLimits()
    """Its limits, in addition to those of the gateway's settings."""
    created_at: datetime
    expires_at: datetime | None = None
    """The time from which it is refused, if there is one."""
    revoked_at: datetime | None = None
    """The time at which it was revoked, or None."""

    def is_valid_at(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def has_secret(self, secret: str) -> bool:
        """Return True if this is the key's secret. The time that it takes does not depend on the secret."""
        return hmac.compare_digest(sha256(secret), self.digest)

    def status_at(self, now: datetime) -> str:
        """Return `valid`, `revoked` or `expired`."""
        return "valid" if self.is_valid_at(now) else "expired" if self.revoked_at is None else "revoked"


class KeyText(NamedTuple):
    """The parts of a key's text."""

    id: str
    secret: str


def parse_key(text: str) -> KeyText | None:
    """Return the parts of a key's text, or None if it has another form. Cost: O(1), also for a very long text."""
    found = _KEY_TEXT.fullmatch(text) if len(text) <= MAX_KEY_LENGTH else None
    return None if found is None else KeyText(found[1], found[2])


def is_key_id(text: str) -> bool:
    """Return True if the text is a valid id of a key."""
    return _KEY_ID.fullmatch(text) is not None
