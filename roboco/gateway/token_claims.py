"""token_claims: the claims of an OIDC token whose signature is valid, and the caller that they name. Pure."""

import math
from collections.abc import Mapping
from typing import Any, Final

from roboco.domain.access_key import CallerLimits, Scope
from roboco.domain.ids import check_tenant
from roboco.errors import UsageError
from roboco.gateway.credentials import unauthorized
from roboco.gateway.principal import Principal
from roboco.gateway.problem import forbidden
from roboco.gateway.settings import GatewaySettings

LEEWAY: Final = 60
"""Seconds by which the clocks of the provider and of the gateway may differ."""
SCOPE_PREFIX: Final = "roboco:"
"""The beginning of this gateway's scopes in a token."""
MAX_SUBJECT: Final = 190
"""Characters of a subject."""
_SCOPES: Final = {scope.value: scope for scope in Scope}


def check_claims(claims: Mapping[str, Any], settings: GatewaySettings, now: float) -> None:
    """Raise Problem `unauthorized` unless the token is for this gateway, from its provider, and valid now."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != settings.oidc_issuer or settings.oidc_audience not in audiences:
        raise unauthorized("the token is not for this gateway")
    expires, not_before, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise unauthorized("the token never expires")
    if now >= expires + LEEWAY:
        raise unauthorized("the token has expired")
    if max(not_before or 0.0, issued or 0.0) > now + LEEWAY:
        raise unauthorized("the token is not valid yet")


def caller_of_claims(claims: Mapping[str, Any], settings: GatewaySettings, limits: CallerLimits) -> Principal:
    """Return the caller of a token. Raise Problem if it names no valid subject, or no tenant.

    A token without a tenant needs the scope `operate`; with a tenant it never has that scope.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise unauthorized("the token names no subject")
    scopes = frozenset(_texts(claims.get(settings.oidc_claims.scope)))
    known = frozenset(
        _SCOPES[name]
        for name in (one.removeprefix(SCOPE_PREFIX) for one in scopes if one.startswith(SCOPE_PREFIX))
        if name in _SCOPES
    )
    tenant = claims.get(settings.oidc_claims.tenant)
    if tenant is None and Scope.OPERATE not in known:
        raise forbidden(f"the token has no claim {settings.oidc_claims.tenant!r} with a tenant", "use another token")
    return Principal(
        by=f"oidc:{subject}",
        tenant=None if tenant is None else _tenant(tenant),
        scopes=known if tenant is None else known - {Scope.OPERATE},
        teams=frozenset(_texts(claims.get(teams))) if (teams := settings.oidc_claims.teams) else None,
        limits=limits,
    )


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise unauthorized(f"the token's claim {name} is not a time")
    return value


def _texts(value: Any) -> list[str]:
    """Return the texts of a claim: a list, or one text with spaces in between."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _tenant(value: Any) -> str:
    try:
        return check_tenant(value)
    except UsageError as error:
        raise forbidden("the token names a tenant that is not allowed", "use another token") from error
