"""Recognition of a Redis that refuses the user or password of a setting, with the remedy for the operator."""

import re
from typing import NamedTuple

REDIS_URL_SETTING = "ROBOCO_REDIS_URL"
BROKER_URL_SETTING = "ROBOCO_BROKER_URL (or ROBOCO_REDIS_URL, if that is not set)"
_PASSWORD_MISSING = re.compile("HELLO must be called|Authentication required|NOAUTH")
_PASSWORD_WRONG = re.compile("invalid username-password|WRONGPASS|invalid password|without any password configured")
_URL_SYNTAX = (
    "write redis://:PASSWORD@HOST:PORT/DATABASE, or redis://USER:PASSWORD@HOST:PORT/DATABASE for a user of its ACL, "
    "with each '/', '#', '?', ':', '@' and '%' of the password as %XX"
)


class Refusal(NamedTuple):
    """A mistake in a Redis URL, and its remedy."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


def find_refusal(error: BaseException, setting: str = REDIS_URL_SETTING) -> Refusal | None:
    """Return the refusal that an error of Redis reports, or None if the error has another cause.

    Clients of a cluster and kombu wrap such an error, so this reads its text instead of its type.
    """
    text = str(error)
    if _PASSWORD_MISSING.search(text):
        return Refusal(f"Redis asks for a password, and {setting} has none", _URL_SYNTAX)
    if _PASSWORD_WRONG.search(text):
        return Refusal(f"Redis refuses the user or password in {setting}", f"correct it, and {_URL_SYNTAX}")
    return None
