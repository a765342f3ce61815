"""oidc: callers with a token of an OpenID Connect provider.

    token ─► RS256 or ES256, key of the provider by its id, signature, claims (joserfc) ─► Principal
    issuer ─► /.well-known/openid-configuration ─► jwks_uri ─► keys, read once an hour
    unknown id ─► keys are read again, at most every RETRY_SECONDS: tokens with invented ids cause no flood
    provider silent ─► the keys that are known, for MAX_AGE; none known: 503

Keys and addresses that the token itself names are ignored. All answers of the provider are bounded in size and time,
and redirections are not followed. Addresses need TLS, except on loopback.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import ECKey, KeySet, RSAKey

from roboco.domain.access_key import CallerLimits, Scope
from roboco.domain.ids import check_tenant
from roboco.errors import TransientError, UsageError
from roboco.gateway.calls import CallLine
from roboco.gateway.credentials import unauthorized
from roboco.gateway.origin import is_loopback
from roboco.gateway.principal import Principal, known_scopes
from roboco.gateway.problem import Problem, forbidden, unavailable
from roboco.gateway.settings import GatewaySettings
from roboco.http.http_exchange import exchange

ALGORITHMS: Final = ("RS256", "ES256")
LEEWAY: Final = 60
"""Seconds by which the clocks of the provider and of the gateway may differ."""
SCOPE_PREFIX: Final = "roboco:"
"""The beginning of this gateway's scopes in a token."""
MAX_SUBJECT: Final = 190
"""Characters of a subject."""
FRESH_SECONDS: Final = 3600.0
"""Seconds after which the keys are read again."""
MAX_AGE: Final = 86_400.0
"""Seconds for which known keys count while the provider does not answer."""
RETRY_SECONDS: Final = 30.0
"""Seconds between two reads at least."""
TIMEOUT: Final = 5.0
"""Seconds to wait for the provider."""
MAX_KEYS: Final = 100
"""Keys of a provider that are read at most."""
MAX_BYTES: Final = 256 * 1024
"""Bytes of an answer."""
MIN_RSA_BITS: Final = 2048
_REFUSED: Final = (JoseError, ValueError, TypeError, RecursionError)


class Tokens:
    """Finds the callers of tokens. Use it in one event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        line: CallLine,
        fetch: Callable[[str], dict[str, Any]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._issuer = settings.oidc_issuer or ""
        self._line = line
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._keys = KeySet([])
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def principal(self, token: str, limits: CallerLimits) -> Principal:
        """Return the caller of the token. Raise Problem `unauthorized` if it is not valid.

        Raise Problem `unavailable` if the provider does not answer, and its keys are not known.
        """
        if self._read_at is None or not self._lock.locked():  # known keys are used while another request reads them
            await self._refresh(FRESH_SECONDS)
        try:
            try:
                claims = self._claims(token)
            except InvalidKeyIdError:
                await self._refresh(RETRY_SECONDS)
                claims = self._claims(token)
        except _REFUSED as error:
            raise unauthorized("the token is not valid") from error
        return caller_of_claims(claims, self._settings, limits)

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is for this gateway, from its provider, and valid now."""
        now = self._clock()
        if self._read_at is None or now >= self._read_at + MAX_AGE:
            raise unavailable("the provider of tokens does not answer", RETRY_SECONDS)
        claims = jwt.decode(token, self._keys, ALGORITHMS).claims
        jwt.JWTClaimsRegistry(
            int(now),
            LEEWAY,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._settings.oidc_audience or ""},
            exp={"essential": True},
        ).validate(claims)
        return claims

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
                self._keys = await self._line.run(self._read)
            except (TransientError, Problem):
                return
            self._read_at = now

    def _read(self) -> KeySet:
        configuration = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        address = configuration.get("jwks_uri")
        if configuration.get("issuer") != self._issuer or not isinstance(address, str):
            raise TransientError(f"{self._issuer} names another issuer, or no keys")
        entries = self._fetch(address).get("keys")
        found = (entries if isinstance(entries, list) else [])[:MAX_KEYS]
        keys = [key for entry in found if (key := _key_of(entry)) is not None]
        if not keys:
            raise TransientError(f"{address} has no key for RS256 or ES256")
        return KeySet([*keys])


def _key_of(entry: Any) -> RSAKey | ECKey | None:
    """Return a key of a JWKS that can check signatures of RS256 and ES256. Others are left out, as RFC 7517 says."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    if isinstance(entry.get("kid"), str):
        public["kid"] = entry["kid"]
    kind, algorithm = entry.get("kty"), entry.get("alg")
    try:
        if kind == "RSA" and algorithm in (None, "RS256"):
            rsa = RSAKey.import_key(public)
            return rsa if rsa.raw_value.key_size >= MIN_RSA_BITS else None
        if kind == "EC" and entry.get("crv") == "P-256" and algorithm in (None, "ES256"):
            return ECKey.import_key(public)
    except (*_REFUSED, LookupError, TypeError):
        return None
    return None


def caller_of_claims(claims: Mapping[str, Any], settings: GatewaySettings, limits: CallerLimits) -> Principal:
    """Return the caller of a token. Raise Problem if it names no valid subject, or no tenant.

    A token without a tenant needs the scope `operate`; with a tenant it never has that scope.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise unauthorized("the token names no subject")
    prefix = SCOPE_PREFIX
    scopes = _texts(claims.get(settings.oidc_claims.scope))
    known = known_scopes(one.removeprefix(prefix) for one in scopes if one.startswith(prefix))
    tenant = claims.get(settings.oidc_claims.tenant)
    if tenant is None and Scope.OPERATE not in known:
        raise forbidden(f"the token has no claim {settings.oidc_claims.tenant!r} with a tenant", "use another token")
    try:
        tenant = None if tenant is None else check_tenant(tenant)
    except UsageError as error:
        raise forbidden("the token names a tenant that is not allowed", "use another token") from error
    return Principal(
        by=f"oidc:{subject}",
        tenant=tenant,
        scopes=known if tenant is None else known - {Scope.OPERATE},
        teams=frozenset(_texts(claims.get(teams))) if (teams := settings.oidc_claims.teams) else None,
        utility_model=next(iter(_texts(claims.get(settings.oidc_claims.utility_model or ""))), None),
        limits=limits,
    )


def _texts(value: Any) -> list[str]:
    """Return the texts of a claim: a list, or one text with spaces in between."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def fetch_json(address: str) -> dict[str, Any]:
    """Return the JSON object at an address. Raise TransientError if there is none."""
    try:
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise TransientError(f"{address} has no TLS")
        answer = exchange("GET", address, {"Accept": "application/json"}, TIMEOUT, MAX_BYTES)
        found = json.loads(answer.body) if answer.status == 200 else None
    except (httpx2.HTTPError, TimeoutError, ValueError, RecursionError) as error:
        raise TransientError(f"{address} does not answer: {type(error).__name__} {error}") from error
    if not isinstance(found, dict):
        raise TransientError(f"{address} is no JSON object, and has status {answer.status}")
    return found
