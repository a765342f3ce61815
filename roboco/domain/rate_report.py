"""RateReport: the use of a rate limit, for displays of operators."""

from typing import Final

from roboco.domain.schema import RecordModel

RATE_WAIT: Final = " for the rate limit of model "
"""A part of the reason of each turn that waits for a rate limit, of Roboco or of the model server."""
NEXT_ATTEMPT: Final = "; next attempt in "
"""The end of the reason of a turn that waits for a model server follows it."""


class RateReport(RecordModel):
    """The use of a rate limit in the last minute."""

    model: str
    """The model, with its team in parentheses if the limit is the team's."""
    requests: int
    max_requests: int | None
    """The limit of requests, or None if there is none."""
    tokens: int | None
    """Tokens, or None if they are not limited."""
    max_tokens: int | None
    """The limit of tokens, or None if there is none."""
    waiting: int
    """Turns that wait for admission."""
    pause_left: float
    """Seconds that are left of a pause that the model server demands, or 0."""
