"""`price: auto`: the prices of a profile, from the list of an installed package."""

import socket
from pathlib import Path
from typing import Any

import pytest

from roboco.client.team_lookup import resolve_sent_team, resolve_team
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.usage import ModelUsage
from roboco.errors import InvalidTeam
from roboco.settings import Settings
from roboco.team_files.prices import priced_profile


@pytest.fixture(autouse=True)
def _openai_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("prices are fetched")

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def auto(model: str, **fields: Any) -> ModelProfile:
    return ModelProfile(model=model, price="auto", **fields)


def team_of(profile: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "desk", "models": {"m": profile}, "agents": [{"name": "a", "prompt": "x"}], **fields}


@pytest.mark.parametrize(
    "profile",
    [
        auto("gpt-4o-mini"),
        auto("claude-sonnet-4-5", provider="anthropic"),
        auto("anthropic.claude-sonnet-4-5-20250929-v1:0", provider="bedrock"),
        auto("mistral-large-latest", base_url="https://api.mistral.ai/v1"),
        auto("openai/gpt-4o", base_url="https://openrouter.ai/api/v1"),
        auto("claude-sonnet-4-5", provider="anthropic", base_url="https://models.example.com"),
    ],
    ids=lambda profile: f"{profile.model}-{profile.base_url}",
)
def test_models_of_providers_have_prices(profile: ModelProfile) -> None:
    priced = priced_profile(profile)
    assert 0 < priced.price_in < priced.price_out or priced.price_in == 0.59
    assert priced.cost(ModelUsage(1_000_000, 1_000_000)) == pytest.approx(priced.price_in + priced.price_out)
    assert (priced.price, priced.model) == ("auto", profile.model)
    assert priced_profile(priced) is priced


def test_cached_tokens_and_the_lowest_tier_have_their_prices() -> None:
    priced = priced_profile(auto("claude-sonnet-4-5", provider="anthropic"))
    assert (priced.price_in, priced.price_cached_in, priced.price_cache_write) == (3.0, 0.3, 3.75)


def test_unknown_models_are_mistakes_of_the_team_with_their_places_and_the_remedy(tmp_path: Path) -> None:
    unknown = {"model": "unheard-of", "price": "auto"}
    inner = {**team_of({**unknown, "base_url": "https://models.example.com/v1"}), "description": "d"}
    data = team_of(unknown, teams={"inner": inner})
    data["agents"][0]["delegates"] = ["inner"]
    with pytest.raises(InvalidTeam) as raised:
        resolve_sent_team(Settings(), data)
    first, second = raised.value.mistakes
    assert first.startswith("models.m.price: the list of prices (genai-prices) has no model 'unheard-of' of provider")
    assert second.startswith("teams.inner.models.m.price: ")
    assert "'https://models.example.com" not in first
    assert "https://models.example.com/v1; write price_in and price_out" in second


def test_a_resolved_team_keeps_its_numbers_when_it_is_sent_again() -> None:
    team = Team.model_validate(team_of({"model": "gpt-4o-mini", "price": "auto"}))
    priced = resolve_team(Settings(), team)
    assert (priced.models["m"].price_in, priced.models["m"].price_out) == (0.15, 0.6)
    assert resolve_sent_team(Settings(), priced.model_dump(mode="json", by_alias=True, exclude_none=True)) == priced
    plain = Team.model_validate(team_of({"model": "gpt-4o-mini"}))
    assert resolve_team(Settings(), plain) is plain
