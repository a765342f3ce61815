"""ModelLimits: the operator's limits per minute of each model, for all teams and tenants together."""

import re
from dataclasses import dataclass

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import covers, url_error
from roboco.errors import UsageError

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""The base URL of profiles without one, if OPENAI_BASE_URL is not set."""
_ENTRY = re.compile(r"(?P<model>\S+?)(?:@(?P<address>https?://\S+))?=(?P<requests>\d{1,9})?(?:/(?P<tokens>\d{1,12}))?")


@dataclass(frozen=True)
class ModelLimit:
    """The requests and tokens per minute that a model at an address allows. None is no limit."""

    model: str
    address: str
    requests: int | None = None
    tokens: int | None = None


class ModelLimits:
    """The limits of ROBOCO_MODEL_LIMITS.

    An entry without address applies to `default_address`, the address of OPENAI_BASE_URL.
    """

    def __init__(self, entries: tuple[str, ...] = (), default_address: str = OPENAI_BASE_URL) -> None:
        self._own = default_address
        self._limits = tuple(parse_limit(entry, default_address) for entry in entries)

    @property
    def entries(self) -> tuple[ModelLimit, ...]:
        """All limits, in the order of their entries."""
        return self._limits

    def for_profile(self, profile: ModelProfile) -> ModelLimit:
        """Return the limit of the profile's model at its address, or above it.

        If there is none, return one without numbers.
        """
        address = profile.base_url or self._own
        found = (one for one in self._limits if one.model == profile.model and _applies(one.address, address))
        return next(found, ModelLimit(profile.model, address.rstrip("/")))


def parse_limit(entry: str, default_address: str = OPENAI_BASE_URL) -> ModelLimit:
    """Parse `MODEL@ADDRESS=REQUESTS/TOKENS`.

    Raise UsageError if the entry has another form.
    """
    found = _ENTRY.fullmatch(entry)
    if found is None or not (found["requests"] or found["tokens"]):
        raise UsageError(f"{entry!r} is no limit: write MODEL@ADDRESS=REQUESTS/TOKENS, MODEL=REQUESTS or MODEL=/TOKENS")
    if found["address"] and (mistake := url_error(found["address"])):
        raise UsageError(f"{entry!r}: its address {mistake}")
    requests, tokens = (int(one) if one else None for one in (found["requests"], found["tokens"]))
    if 0 in (requests, tokens):
        raise UsageError(f"{entry!r} allows nothing: limits are at least 1")
    return ModelLimit(found["model"], found["address"] or default_address, requests, tokens)


def _applies(entry: str, address: str) -> bool:
    return entry.rstrip("/") == address.rstrip("/") or covers(entry, address)
