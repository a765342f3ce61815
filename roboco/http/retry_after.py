"""Retry-After headers: the seconds after which a server accepts another request."""

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_retry_after(header: str) -> float | None:
    """Return the seconds in a Retry-After header, or until the time in it, or None if it has neither.

    A time without a zone is UTC. A time in the past gives 0.
    """
    seconds = parse_seconds(header)
    return _seconds_until(header) if seconds is None else seconds


def parse_seconds(text: str) -> float | None:
    """Return the number of seconds, or None if the text is no finite number from 0."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
