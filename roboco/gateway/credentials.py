"""credentials: the key or token of a request's headers. Pure.

Authorization: Bearer TEXT ─┐
X-API-Key: TEXT ────────────┼─► one text ─► key `rbk_...`, or token of an OIDC provider
Cookie: roboco_session=TEXT ┘   more than one: 401

A request that carries two different credentials is refused: a proxy, a log and this process could each read another
one. A header wins over the cookie, also if it is wrong.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from roboco.gateway.problem import Problem

Headers = Iterable[tuple[bytes, bytes]]
"""The headers of an ASGI scope: names in lower case."""

MAX_CREDENTIAL_BYTES: Final = 16_384
_TEXT = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class HeaderCredential:
    """A key or token that the client has sent in a header."""

    text: str


@dataclass(frozen=True)
class CookieCredential:
    """The cookie of a browser that has signed in. Other web pages may cause requests that carry it."""

    text: str


Credential = HeaderCredential | CookieCredential


def unauthorized(detail: str = "the request has no valid key") -> Problem:
    """Return the Problem of a request without a valid key. It never says which part of a key is wrong."""
    remedy = "send the header Authorization: Bearer KEY; `roboco keys create` makes one"
    return Problem(401, "unauthorized", detail, remedy, {"WWW-Authenticate": "Bearer"})


def credential_of(headers: Headers, cookie_name: str) -> Credential | None:
    """Return the credential of a request, or None if it has none. Raise Problem if it has two, or a malformed one."""
    values = list(headers)
    texts = {_bearer(value) for name, value in values if name == b"authorization"}
    texts |= {_checked(value) for name, value in values if name == b"x-api-key"}
    repeated = (
        sum(name == b"authorization" for name, _ in values) > 1 or sum(name == b"x-api-key" for name, _ in values) > 1
    )
    if len(texts) > 1 or repeated:
        raise unauthorized("the request has more than one key")
    if texts:
        return HeaderCredential(texts.pop())
    cookies = set(_cookies(values, cookie_name))
    if len(cookies) > 1:
        raise unauthorized("the request has more than one cookie of a sign-in")
    return CookieCredential(cookies.pop()) if cookies else None


def _bearer(value: bytes) -> str:
    scheme, _, text = value.strip().partition(b" ")
    if scheme.lower() != b"bearer":
        raise unauthorized("the header Authorization must be: Bearer KEY")
    return _checked(text)


def _checked(value: bytes) -> str:
    text = value.strip().decode("latin-1")
    if len(text) > MAX_CREDENTIAL_BYTES or _TEXT.fullmatch(text) is None:
        raise unauthorized()
    return text


def _cookies(headers: Headers, cookie_name: str) -> Iterable[str]:
    """Yield the values of the gateway's cookie. A value in another form is one, too: it is refused later."""
    for name, value in headers:
        if name == b"cookie":
            for pair in value.decode("latin-1")[:MAX_CREDENTIAL_BYTES].split(";"):
                key, _, text = pair.strip().partition("=")
                if key == cookie_name:
                    yield text.strip('" ')
