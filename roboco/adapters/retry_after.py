"""Retry-After: in how many seconds a server wants to be asked again."""

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after(header: str) -> float | None:
    """The seconds that a Retry-After header says, or that are left until the time that it says; None if it says none.

    A time without a zone is UTC, and one that has passed is now.
    """
    seconds = seconds_of(header)
    return _until(header) if seconds is None else seconds


def seconds_of(text: str) -> float | None:
    """The number of seconds; None if it is none that can be waited for."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
