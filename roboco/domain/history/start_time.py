"""The start time of a task that is submitted for later."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from roboco.errors import UsageError

ETA = "eta"
"""The metadata key of a task's first step for its start time, if that is later than its submission."""
MAX_DELAY_SECONDS = 366 * 86_400.0
"""The longest delay of a task's start, in seconds."""


def parse_eta(text: str) -> datetime:
    """Return the time of a text in ISO 8601 with a zone.

    Raise UsageError if the text is not one.
    """
    try:
        eta = datetime.fromisoformat(text)
        in_utc = eta.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # a zone may lead beyond the years 1 to 9999
        raise UsageError(f"eta: must be a time such as '2026-03-01T08:00:00+01:00' (found {text[:60]!r})") from error
    if eta.tzinfo is None:
        raise UsageError(f"eta: needs a time zone, such as '+01:00' or 'Z' at its end (found {text[:60]!r})")
    return in_utc


def requested_start_time(eta: str | None, countdown: float | None, now: datetime) -> datetime | None:
    """Return the start time that these options request, or None if the task starts immediately.

    Raise UsageError if both options are set or the time is more than a year away.
    """
    if eta is not None and countdown is not None:
        raise UsageError("eta: name either eta or countdown, not both")
    begins = parse_eta(eta) if eta is not None else now + timedelta(seconds=countdown or 0.0)
    if (begins - now).total_seconds() > MAX_DELAY_SECONDS:
        raise UsageError(f"eta: is more than a year away ({begins.isoformat()})")
    return begins if begins > now else None


def start_time_of(metadata: Mapping[str, Any], submitted_at: datetime) -> datetime:
    """Return the start time of a task: its submission, or later if the metadata of its first step say so."""
    eta = metadata.get(ETA)
    return datetime.fromisoformat(eta) if isinstance(eta, str) else submitted_at
