"""authentication: find the caller of a request by its key, its token or its cookie.

    headers ─► credential (pure) ─► key ─► KeyCache ─► secret, revocation, expiry ─► Principal
                 └── two: 401       └── no such key, wrong secret, revoked, expired: the same 401

The records are read again within ten seconds, so a revoked key ends soon, also in processes that know it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from roboco.domain.access_key import KEY_PREFIX, AccessKey, CallerLimits, parse_key
from roboco.gateway import session_cookie
from roboco.gateway.calls import CallLine
from roboco.gateway.credentials import cookie_credential, header_credential, unauthorized
from roboco.gateway.key_cache import KeyCache
from roboco.gateway.oidc import Tokens
from roboco.gateway.origin import check_origin, host_name
from roboco.gateway.principal import LOCAL, Principal, known_scopes
from roboco.gateway.settings import GatewaySettings


class Authenticator:
    """Finds callers by their credentials."""

    def __init__(self, settings: GatewaySettings, keys: KeyCache, line: CallLine) -> None:
        self._settings = settings
        self._keys = keys
        self._tokens = None if settings.oidc_issuer is None else Tokens(settings, line)

    async def principal(self, scope: Mapping[str, Any]) -> Principal:
        """Return the caller of an ASGI request. Raise Problem `unauthorized` if it has no valid credential."""
        if not self._settings.authentication:
            return replace(LOCAL, limits=self._settings.limits)
        limits = self._settings.limits
        if (text := header_credential(scope["headers"])) is not None:
            if self._tokens is not None and not text.startswith(f"{KEY_PREFIX}_"):
                return await self._tokens.principal(text, limits)
            return principal_of(await self.key(text), limits)
        if (cookie := cookie_credential(scope["headers"], session_cookie.cookie_name(host_name(scope)))) is not None:
            check_origin(scope, needs_proof=True)
            return principal_of(await self._key_of_session(cookie), limits)
        raise unauthorized()

    async def key(self, text: str) -> AccessKey:
        """Return the valid key with this text. Raise Problem `unauthorized` if there is none."""
        parts = parse_key(text)
        key = None if parts is None else await self._keys.get(parts.id)
        if parts is None or key is None or not key.has_secret(parts.secret) or not key.is_valid_at(datetime.now(UTC)):
            raise unauthorized()
        return key

    async def _key_of_session(self, text: str) -> AccessKey:
        """Return the valid key of a cookie. Raise Problem `unauthorized` if its signature is wrong, or it has ended."""
        key_id, secrets, now = session_cookie.key_id_of(text), self._settings.cookie_secret, datetime.now(UTC)
        key = None if key_id is None or not secrets else await self._keys.get(key_id)
        if key is None or not session_cookie.is_valid(text, key, secrets, now.timestamp()) or not key.is_valid_at(now):
            raise unauthorized("the browser is not signed in")
        return key


def principal_of(key: AccessKey, most: CallerLimits) -> Principal:
    """Return the caller of a key, whose limits are at most these."""
    return Principal(
        by=f"key:{key.id}",
        tenant=key.tenant,
        scopes=known_scopes(key.scopes),
        teams=None if key.teams is None else frozenset(key.teams),
        functions=None if key.functions is None else frozenset(key.functions),
        utility_model=key.utility_model,
        limits=most.tighter(key.limits),
    )
