"""credentials: the key or token of a request's headers. Pure.

Authorization: Bearer TEXT ─┐
X-API-Key: TEXT ────────────┼─► one text ─► key `rbk_...`, or token of an OIDC provider
Cookie: roboco_session=TEXT ┘   more than one: 401

A request that carries two different credentials is refused: a proxy, a log and this process could each read another
one. A header wins over the cookie, also if it is wrong.
"""

import re
from collections.abc import Sequence
from typing import Final

from roboco.gateway.problem import Problem

Headers = Sequence[tuple[bytes, bytes]]
"""The headers of an ASGI scope: names in lower case."""

MAX_CREDENTIAL_BYTES: Final = 16_384
_TEXT = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def unauthorized(detail: str = "the request has no valid key") -> Problem:
    """Return the Problem of a request without a valid key. It never says which part of a key is wrong."""
    remedy = "send the header Authorization: Bearer KEY; `roboco keys create` makes one"
    return Problem(401, "unauthorized", detail, remedy, {"WWW-Authenticate": "Bearer"})


def header_credential(headers: Headers) -> str | None:
    """Return the key or token in the headers of a request, or None. Raise Problem if it has two, or a malformed one."""
    bearers = [_bearer(value) for name, value in headers if name == b"authorization"]
    keys = [_checked(value) for name, value in headers if name == b"x-api-key"]
    texts = {*bearers, *keys}
    if len(texts) > 1 or len(bearers) > 1 or len(keys) > 1:
        raise unauthorized("the request has more than one key")
    return texts.pop() if texts else None


def cookie_credential(headers: Headers, cookie_name: str) -> str | None:
    """Return the cookie of a browser that has signed in, or None. Raise Problem if there are two.

    Other web pages may cause requests that carry it. A value in another form is one, too: it is refused later.
    """
    cookies = b";".join(value for name, value in headers if name == b"cookie").decode("latin-1")
    pairs = (pair.strip().partition("=") for pair in cookies[:MAX_CREDENTIAL_BYTES].split(";"))
    found = {text.strip('" ') for name, _, text in pairs if name == cookie_name}
    if len(found) > 1:
        raise unauthorized("the request has more than one cookie of a sign-in")
    return found.pop() if found else None


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
