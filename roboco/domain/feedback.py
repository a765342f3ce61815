"""Feedback: a caller's rating of an agent's step. The newest one of each caller counts."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from roboco.domain.canonical_json import sha256
from roboco.domain.schema import CallerId, InputModel, RecordModel

MAX_CATEGORIES: Final = 20
"""The most categories of a rating."""


class Rating(InputModel):
    """The rating of a step."""

    model_config = ConfigDict(strict=True, frozen=True)

    sentiment: Literal["positive", "negative"]
    categories: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=60)], ...], Field(max_length=MAX_CATEGORIES, strict=False)
    ] = ()
    """Words that classify the rating, such as "incomplete"."""
    notes: Annotated[str | None, Field(max_length=4000)] = None


class Feedback(RecordModel):
    """A caller's rating of a step, as the workspace stores it."""

    feedback_id: str
    """The same for each rating of the step by this caller."""
    seq: int
    """The position of the step."""
    by: CallerId
    """The caller."""
    created_at: datetime
    """The time of its first rating, in UTC."""
    modified_at: datetime
    """The time of its newest rating, in UTC."""
    sentiment: Literal["positive", "negative"]
    categories: tuple[str, ...] = ()
    notes: str | None = None

    @property
    def rating(self) -> Rating:
        """The rating itself."""
        return Rating(sentiment=self.sentiment, categories=self.categories, notes=self.notes)


def feedback_id(task_id: str, seq: int, by: str) -> str:
    """Return the id of the caller's rating of a step."""
    return f"fb_{sha256(f'{task_id}/{seq}/{by}')[:32]}"
