"""Beginning: when a task begins that was submitted for later."""

from datetime import UTC, datetime, timedelta

from roboco.domain.history.step import TaskStep
from roboco.errors import UsageError

ETA = "eta"
"""Where the metadata of a task's first step tells when it begins, if that is later than it was submitted."""
LONGEST = 366 * 86_400.0
"""Seconds for which a task may wait for its beginning."""


def read_eta(text: str) -> datetime:
    """The time of a text in ISO 8601 with a zone; UsageError if it is none."""
    try:
        eta = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"eta: must be a time such as '2026-03-01T08:00:00+01:00' (found {text[:60]!r})") from error
    if eta.tzinfo is None:
        raise UsageError(f"eta: needs a time zone, such as '+01:00' or 'Z' at its end (found {text[:60]!r})")
    return eta.astimezone(UTC)


def begins_at(eta: str | None, countdown: float | None, now: datetime) -> datetime | None:
    """When a task begins for which this was wished; None for at once. UsageError if it cannot be."""
    if eta is not None and countdown is not None:
        raise UsageError("eta: name either eta or countdown, not both")
    begins = read_eta(eta) if eta is not None else now + timedelta(seconds=countdown or 0.0)
    if (begins - now).total_seconds() > LONGEST:
        raise UsageError(f"eta: is more than a year away ({begins.isoformat()})")
    return begins if begins > now else None


def begins(first: TaskStep) -> datetime:
    """When the task begins that has this first step: when it was submitted, or later."""
    told = first.metadata.get(ETA)
    return datetime.fromisoformat(told) if isinstance(told, str) else first.created_at
