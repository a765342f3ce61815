"""Rates on Redis: what was asked of a model in the last minute, and who waits for its turn to ask."""

import math

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.canonical import canonical, sha256
from roboco.domain.model_profile import ModelProfile

WINDOW = 61.0
"""Seconds in which the limits hold: a minute, and how late a request may reach its server."""


class RedisRates:
    """Requests of the last `window` seconds, a sorted set for each model, and those that wait in order behind them."""

    def __init__(self, scripts: Scripts, keys: Keys, window: float = WINDOW) -> None:
        self._scripts = scripts
        self._keys = keys
        self._window_ms = int(window * 1000)

    def reserve(self, profile: ModelProfile, ticket: str, tokens: int) -> float:
        """Seconds until a request of so many tokens may be made: 0 if now."""
        most = (profile.requests_per_minute or "", profile.tokens_per_minute or "")
        return float(self._scripts.run("reserve", self._names(profile), ticket, tokens, *most, self._window_ms)) / 1000

    def settle(self, profile: ModelProfile, ticket: str, tokens: int, ago: float = 0.0) -> None:
        """The request of this ticket was made so many seconds ago, and has used so many tokens."""
        self._scripts.run("settle", self._names(profile), ticket, tokens, int(ago * 1000))

    def pause(self, profile: ModelProfile, seconds: float) -> None:
        """Let nobody ask this profile's server for so many seconds."""
        self._scripts.run("hold_back", self._names(profile)[2:], math.ceil(seconds * 1000))

    def _names(self, profile: ModelProfile) -> list[str]:
        server = server_of(profile)
        return [self._keys.asked(server), self._keys.asking(server), self._keys.held_back(server)]


def server_of(profile: ModelProfile) -> str:
    """By what name the requests of this profile are counted: all that name the same model of a server share it."""
    return sha256(canonical([profile.base_url, profile.api_key_env, profile.model]))[:16]
