"""Recognition of a Redis that refuses the user or password of a setting, with the remedy for the operator."""

import re
from typing import NamedTuple

SETTING = "ROBOCO_REDIS_URL"
BROKER_SETTING = "ROBOCO_BROKER_URL (or ROBOCO_REDIS_URL, if that is not set)"
_MISSING = re.compile("HELLO must be called|Authentication required|NOAUTH")
_WRONG = re.compile("invalid username-password|WRONGPASS|invalid password|without any password configured")
_SYNTAX = (
    "write redis://:PASSWORD@HOST:PORT/DATABASE, or redis://USER:PASSWORD@HOST:PORT/DATABASE for a user of its ACL, "
    "with each '/', '#', '?', ':', '@' and '%' of the password as %XX"
)


class Refusal(NamedTuple):
    """A mistake in a Redis URL, and its remedy."""

    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}: {self.remedy}"


def refusal(error: BaseException, setting: str = SETTING) -> Refusal | None:
    """Return the refusal that an error of Redis reports, or None if the error has another cause.

    Clients of a cluster and kombu wrap such an error, so this reads its text instead of its type.
    """
    text = str(error)
    if _MISSING.search(text):
        return Refusal(f"Redis asks for a password, and {setting} has none", _SYNTAX)
    if _WRONG.search(text):
        return Refusal(f"Redis refuses the user or password in {setting}", f"correct it, and {_SYNTAX}")
    return None
