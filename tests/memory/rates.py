"""Rates in memory: what was asked of models in the last minute, and who waits."""

from roboco.domain.model_profile import ModelProfile
from roboco.domain.tokens import ESTIMATE, Tokens
from roboco.ports import Clock
from tests.memory.server import MemoryServer, StoredRequest

WINDOW = 60.0
LATE = 5.0


class MemoryRates:
    """Requests of the last `window` seconds, and those that wait in order behind them."""

    def __init__(self, server: MemoryServer, clock: Clock, window: float = WINDOW) -> None:
        self._server = server
        self._clock = clock
        self._window = window

    def reserve(self, profile: ModelProfile, ticket: str, tokens: int) -> float:
        """Seconds until a request of so many tokens may be made: 0 if now."""
        now = self._clock.now()
        with self._server as held:
            requests = held.asked.setdefault(profile.model, {})
            mine = requests.get(ticket)
            if mine is not None and mine.made:
                return 0.0
            at = max(now, held.held_back.get(profile.model, 0.0))
            most = profile.tokens_per_minute
            if most is None and profile.requests_per_minute is None:
                return at - now
            for name, one in list(requests.items()):
                late = not one.made and one.at < now - LATE and name != ticket
                if one.at <= now - self._window or late:
                    del requests[name]
            ahead = [
                one for name, one in requests.items() if name != ticket and (one.made or not mine or one.at < mine.at)
            ]
            at = max([at, *(one.at for one in ahead if not one.made)])
            entries = sorted((one.at if one.made else max(one.at, now), one.tokens) for one in ahead)
            tokens = tokens if most is None else min(tokens, most)
            while entries and not self._fits(profile, entries, at, tokens):
                at = max(at, entries.pop(0)[0] + self._window + 0.001)
            requests[ticket] = StoredRequest(at, tokens, made=at <= now)
            return at - now

    def settle(self, profile: ModelProfile, ticket: str, tokens: int, ago: float = 0.0) -> None:
        """The request of this ticket was made so many seconds ago, and has used so many tokens."""
        with self._server as held:
            if (request := held.asked.get(profile.model, {}).get(ticket)) is not None:
                request.tokens, request.at = tokens, max(request.at, self._clock.now() - ago)

    def pause(self, profile: ModelProfile, seconds: float) -> None:
        """Let nobody ask this profile's server for so many seconds."""
        with self._server as held:
            until = self._clock.now() + seconds
            held.held_back[profile.model] = max(until, held.held_back.get(profile.model, 0.0))

    def _fits(self, profile: ModelProfile, entries: list[tuple[float, int]], at: float, tokens: int) -> bool:
        counted = [used for when, used in entries if when > at - self._window]
        if profile.requests_per_minute is not None and len(counted) >= profile.requests_per_minute:
            return False
        return profile.tokens_per_minute is None or sum(counted) + tokens <= profile.tokens_per_minute


class Estimates:
    """Counts all tokens as an estimate."""

    def of(self, model: str) -> Tokens:
        """The estimate."""
        return ESTIMATE
