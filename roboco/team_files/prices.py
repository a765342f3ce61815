"""prices: the prices of profiles with `price: auto`, from the list that the package genai-prices contains.

    profile, address ─► own address? ─► no price
                        └► provider by its address or `provider` ─► model ─► prices of today at noon, lowest tier

The list is part of the installed package, and nothing is fetched. The client looks a price up when it resolves a team,
so `team.json` holds numbers, and a replay counts the same cost.
"""

import importlib
import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.url import without_query
from roboco.errors import InvalidTeam
from roboco.model.allowlist import base_url_of
from roboco.process.extras import missing_packages

_EXTRA: Final = "prices"
_PROVIDERS: Final = {"openai-responses": "openai", "bedrock": "aws"}
"""The names of providers in the list, where they differ from those of profiles."""
_OWN_DOMAINS: Final = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc")
_FIELDS: Final = {
    "price_in": "input_mtok",
    "price_out": "output_mtok",
    "price_cached_in": "cache_read_mtok",
    "price_cache_write": "cache_write_mtok",
}


def with_prices(team: Team, source: str = "team") -> Team:
    """Return the team with the prices of its profiles, and of the teams in it, in place of `price: auto`.

    A profile that has prices keeps them. Raise InvalidTeam, which lists all models without a known price.
    """
    mistakes: list[str] = []
    priced = _with_prices(team, "", mistakes)
    if mistakes:
        raise InvalidTeam(source, tuple(mistakes))
    return priced


def _with_prices(team: Team, at: str, mistakes: list[str]) -> Team:
    models: dict[str, ModelProfile] = {}
    for name, profile in team.models.items():
        try:
            models[name] = priced_profile(profile)
        except LookupError as error:
            mistakes.append(f"{at}models.{name}.price: {error}")
    teams = {name: _with_prices(inner, f"{at}teams.{name}.", mistakes) for name, inner in team.teams.items()}
    changed = mistakes or (models, teams) != (team.models, team.teams)
    return team.model_copy(update={"models": models, "teams": teams}) if changed else team


def priced_profile(profile: ModelProfile) -> ModelProfile:
    """Return the profile with prices if it has `price: auto`. Raise LookupError if they are not known."""
    if profile.price is None or profile.has_prices:
        return profile
    address = base_url_of(profile)
    if address and _is_own(address):
        return profile
    if missing_packages(_EXTRA):
        raise LookupError(
            f"'auto' needs genai-prices, which is not installed: run pip install 'roboco[{_EXTRA}]', or write price_in "
            "and price_out"
        )
    provider = _PROVIDERS.get(profile.provider, profile.provider)
    return profile.model_copy(update=_known_prices(profile.model, provider, address))


def _known_prices(model: str, provider: str, address: str | None) -> dict[str, float]:
    prices = importlib.import_module("genai_prices")
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)  # some providers are cheaper at night
    usage = prices.Usage(input_tokens=1, output_tokens=1)
    for place in _places(provider, address):
        try:
            found = prices.calc_price(usage, model, genai_request_timestamp=noon, **place).model_price
        except LookupError:
            continue
        known = {field: _base(getattr(found, name, None)) for field, name in _FIELDS.items()}
        return {field: price for field, price in known.items() if price is not None}
    where = without_query(address or "") or f"provider {provider!r}"
    raise LookupError(
        f"the list of prices (genai-prices) has no model {model!r} of {where}; write price_in and price_out, per "
        "million tokens, in place of `price: auto`, or update the package"
    )


def _places(provider: str, address: str | None) -> Iterator[dict[str, str]]:
    """Yield where to look: by the address, and for a gateway before a provider by the provider's name."""
    if address:
        yield {"provider_api_url": address}
    if not address or provider != "openai":
        yield {"provider_id": provider}


def _base(price: Any) -> float | None:
    """Return the price of the lowest tier, or None if there is none."""
    value = getattr(price, "base", price)
    return None if value is None else float(value)


def _is_own(address: str) -> bool:
    """Return True if the address is one of the operator's network, whose models have no published price."""
    host = (urlsplit(address).hostname or "").lower()
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_OWN_DOMAINS)
