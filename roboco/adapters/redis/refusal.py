"""refusal: a Redis that refuses the user or password of an address, and what its operator writes instead."""

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
    """A mistake in an address, and its remedy."""

    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}: {self.remedy}"


def refusal(error: BaseException, setting: str = SETTING) -> Refusal | None:
    """Return what an error of Redis says about the password in the setting; None if it says nothing about that.

    Clients of a cluster and kombu wrap such an error, so that its text counts.
    """
    text = str(error)
    if _MISSING.search(text):
        return Refusal(f"Redis asks for a password, and {setting} has none", _SYNTAX)
    if _WRONG.search(text):
        return Refusal(f"Redis refuses the user or password in {setting}", f"correct it, and {_SYNTAX}")
    return None
