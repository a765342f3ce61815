"""oidc: callers with a token of an OpenID Connect provider.

    token ─► header: RS256 or ES256 ─► key of the provider by its id ─► signature ─► claims ─► Principal

The kind of the key fixes the algorithm: a public key is never taken for a secret of HS256, and `none` is refused. Keys
and addresses that the token itself names are ignored.
"""

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError

from roboco.domain.access_key import CallerLimits
from roboco.gateway.calls import CallLine
from roboco.gateway.credentials import unauthorized
from roboco.gateway.principal import Principal
from roboco.gateway.provider_keys import ProviderKeys
from roboco.gateway.settings import GatewaySettings
from roboco.gateway.token_claims import caller_of_claims, check_claims

ALGORITHMS: Final = ("RS256", "ES256")
MAX_HEADER: Final = 2048
"""Characters of a token's header."""


class Tokens:
    """Finds the callers of tokens."""

    def __init__(self, settings: GatewaySettings, line: CallLine, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self.keys = ProviderKeys(settings.oidc_issuer or "", line)

    async def principal(self, token: str, limits: CallerLimits) -> Principal:
        """Return the caller of the token. Raise Problem `unauthorized` if it is not valid."""
        algorithm, key_id = _header(token)
        key = await self.keys.find(key_id, algorithm)
        if key is None:
            raise unauthorized("no key of the provider has signed the token")
        try:
            claims: dict[str, Any] = jwt.decode(token, key, algorithms=[algorithm]).claims
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise unauthorized("the token is not valid") from error
        check_claims(claims, self._settings, self._clock())
        return caller_of_claims(claims, self._settings, limits)


def _header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the id of the key. Raise Problem `unauthorized` unless it is a signed token."""
    parts = token.split(".")
    if len(parts) != 3 or len(parts[0]) > MAX_HEADER:
        raise unauthorized()
    try:
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError) as error:
        raise unauthorized() from error
    algorithm, key_id = (header.get("alg"), header.get("kid")) if isinstance(header, dict) else (None, None)
    if algorithm not in ALGORITHMS or not isinstance(key_id, str | None) or "crit" in header:
        raise unauthorized("the token is not signed with RS256 or ES256")
    return algorithm, key_id
