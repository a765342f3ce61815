"""Outcomes of an attempt at a turn or call, for the display of its Celery task."""

from dataclasses import dataclass
from enum import StrEnum


class TurnOutcome(StrEnum):
    """The result of an attempt to run a turn. Flower shows its text."""

    COMMITTED = "committed"
    RATE_LIMITED = "waits until its model's rate limit allows it"
    BUDGET = "waits until the next day, or until its tenant's budget is raised"
    OUTAGE = "waits, because its model cannot be reached"
    DEFERRED = "waits for the tools of a server, or until another turn that lost its worker is done"
    HANDED_OVER = "handed over, because its worker was shut down, or an operator has switched it off"
    CUT_OFF = "the model's answer broke off in the middle: another attempt replaces it"
    REPLACED = "another attempt has replaced it"
    CLAIMED_ELSEWHERE = "another worker has claimed this attempt"
    OBSOLETE = "done before, or no longer wanted"


@dataclass(frozen=True)
class SwitchedOff:
    """A turn or call waits for this cause: a switch, or for a turn of pydantic-ai the budget of its tenant."""

    cause: str


class CallOutcome(StrEnum):
    """The result of an attempt to run a call. Flower shows its text."""

    DONE = "done, done before, or no longer wanted"
    CLAIMED_ELSEWHERE = "another worker has claimed this attempt"
    HANDED_OVER = "handed over, because its worker was shut down, or an operator has switched it off"
