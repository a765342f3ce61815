"""session_cookie: the cookie of a browser that has signed in with a key. Pure.

    v1.KEY_ID.ISSUED.EXPIRES.MAC        MAC = HMAC-SHA256(cookie secret, the rest and the digest of the key's secret)

It needs no state: each process checks the signature, and then the key as for any request. So a session ends when its
key is revoked or expires. The cookie holds no part of the key's secret, and does not work as a key.

The secret is a setting, and not in the workspace, where the digests are: a reader of the workspace can sign nothing.
"""

import hmac
import re
from hashlib import sha256
from typing import Final

from roboco.domain.access_key import AccessKey
from roboco.gateway.origin import is_loopback

SECURE_NAME: Final = "__Host-roboco_session"
"""The name behind TLS. Browsers refuse it from other hosts, for other paths, and without TLS."""
LOCAL_NAME: Final = "roboco_session"
"""The name on loopback, where there is no TLS."""
_TEXT: Final = re.compile(r"(v1\.([a-z0-9]{8,32})\.([0-9]{1,12})\.([0-9]{1,12}))\.([0-9a-f]{64})")


def cookie_name(host: str) -> str:
    """Return the name of the cookie for requests to this host."""
    return LOCAL_NAME if is_loopback(host) else SECURE_NAME


def issue(key: AccessKey, secrets: tuple[str, ...], now: float, seconds: int) -> str:
    """Return the value of a cookie. Raise IndexError if there is no secret."""
    signed = f"v1.{key.id}.{int(now)}.{int(now) + seconds}"
    return f"{signed}.{_mac(secrets[0], signed, key)}"


def key_id_of(text: str) -> str | None:
    """Return the id of the key of a cookie, whose signature is not checked yet, or None if it has another form."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found[2]


def is_valid(text: str, key: AccessKey, secrets: tuple[str, ...], now: float) -> bool:
    """Return True if one of the secrets has signed the cookie for this key, and it has not expired."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return False
    matches = [hmac.compare_digest(_mac(secret, found[1], key), found[5]) for secret in secrets]
    return any(matches) and now < int(found[4])


def set_cookie(host: str, value: str, seconds: int) -> str:
    """Return the header Set-Cookie. An empty value and 0 seconds delete the cookie."""
    secure = "" if is_loopback(host) else "; Secure"
    return f"{cookie_name(host)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _mac(secret: str, signed: str, key: AccessKey) -> str:
    return hmac.new(secret.encode(), f"roboco-session.{signed}.{key.digest}".encode(), sha256).hexdigest()
