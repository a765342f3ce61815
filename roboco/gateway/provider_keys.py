"""provider_keys: the public keys of an OIDC provider, read when they are needed and kept for an hour.

    issuer ─► /.well-known/openid-configuration ─► jwks_uri ─► keys of RS256 and ES256, by id
    unknown id ─► read again, at most every RETRY_SECONDS: tokens with invented ids cause no flood
    provider silent ─► the keys that are known, for MAX_AGE; none known: 503

All answers are bounded in size and time, and redirections are not followed. Addresses need TLS, except on loopback.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from roboco.errors import TransientError
from roboco.gateway.calls import CallLine
from roboco.gateway.origin import is_loopback
from roboco.gateway.problem import Problem, unavailable
from roboco.http.http_exchange import exchange

FRESH_SECONDS: Final = 3600.0
"""Seconds after which the keys are read again."""
MAX_AGE: Final = 86_400.0
"""Seconds for which known keys count while the provider does not answer."""
RETRY_SECONDS: Final = 30.0
"""Seconds between two reads at least."""
TIMEOUT: Final = 5.0
"""Seconds to wait for the provider."""
MAX_BYTES: Final = 256 * 1024
"""Bytes of an answer."""
MAX_KEYS: Final = 100
MIN_RSA_BITS: Final = 2048
ProviderKey = RSAKey | ECKey


class ProviderKeys:
    """The keys of one provider. Use it in one event loop."""

    def __init__(
        self,
        issuer: str,
        line: CallLine,
        fetch: Callable[[str], dict[str, Any]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._line = line
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._keys: list[tuple[str, ProviderKey]] = []
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, key_id: str | None, algorithm: str) -> ProviderKey | None:
        """Return the key with this id for RS256 or ES256, or None. A token without an id needs a single key.

        Raise Problem `unavailable` if the provider does not answer, and its keys are not known.
        """
        if self._read_at is None or not self._lock.locked():  # known keys are used while another request reads them
            await self._refresh(FRESH_SECONDS)
        found = self._find(key_id, algorithm)
        if found is None:
            await self._refresh(RETRY_SECONDS)
            found = self._find(key_id, algorithm)
        if self._read_at is None or self._clock() >= self._read_at + MAX_AGE:
            raise unavailable("the provider of tokens does not answer", RETRY_SECONDS)
        return found

    def _find(self, key_id: str | None, algorithm: str) -> ProviderKey | None:
        kind = RSAKey if algorithm == "RS256" else ECKey
        found = [key for its_id, key in self._keys if isinstance(key, kind) and key_id in (None, its_id)]
        return found[0] if len(found) == 1 else None

    async def _refresh(self, age: float) -> None:
        """Read the keys if they are older than `age`, unless they were just tried. Keep them if that fails."""
        async with self._lock:
            now = self._clock()
            if self._read_at is not None and now < self._read_at + age:
                return
            if self._tried_at is not None and now < self._tried_at + RETRY_SECONDS:
                return
            self._tried_at = now
            try:
                keys = await self._line.run(self._read)
            except (TransientError, Problem):
                return
            self._keys, self._read_at = keys, now

    def _read(self) -> list[tuple[str, ProviderKey]]:
        configuration = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        address = configuration.get("jwks_uri")
        if configuration.get("issuer") != self._issuer or not isinstance(address, str):
            raise TransientError(f"{self._issuer} names another issuer, or no keys")
        return keys_of(self._fetch(address))


def keys_of(key_set: Mapping[str, Any]) -> list[tuple[str, ProviderKey]]:
    """Return the keys of a JWKS that can check signatures of RS256 and ES256, with their ids. Others are left out."""
    entries = key_set.get("keys")
    found = (_key_of(entry) for entry in (entries if isinstance(entries, list) else [])[:MAX_KEYS])
    return [one for one in found if one is not None]


def _key_of(entry: Any) -> tuple[str, ProviderKey] | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    kind, algorithm = entry.get("kty"), entry.get("alg")
    try:
        if kind == "RSA" and algorithm in (None, "RS256"):
            rsa = RSAKey.import_key(public)
            return (str(entry.get("kid", "")), rsa) if rsa.raw_value.key_size >= MIN_RSA_BITS else None
        if kind == "EC" and entry.get("crv") == "P-256" and algorithm in (None, "ES256"):
            return str(entry.get("kid", "")), ECKey.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None


def fetch_json(address: str) -> dict[str, Any]:
    """Return the JSON object at an address. Raise TransientError if there is none."""
    try:
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise TransientError(f"{address} has no TLS")
        answer = exchange("GET", address, {"Accept": "application/json"}, TIMEOUT, MAX_BYTES)
        if answer.status != 200:
            raise TransientError(f"{address} answers with status {answer.status}")
        found = json.loads(answer.body)
    except (httpx2.HTTPError, TimeoutError, ValueError, RecursionError) as error:
        raise TransientError(f"{address} does not answer: {type(error).__name__} {error}") from error
    if not isinstance(found, dict):
        raise TransientError(f"{address} is no JSON object")
    return found
