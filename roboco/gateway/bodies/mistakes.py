"""FewMistakes: bodies of requests whose mistakes are listed only if they are few.

A list of mistakes costs ten times as much as the check that has found them, and no client reads thousands.
"""

from typing import Any, Final, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from roboco.domain.canonical_json import validated_json

MAX_MISTAKES: Final = 1000
"""Mistakes that are listed. A response shows fewer."""


class FewMistakes(BaseModel):
    """A body. More than MAX_MISTAKES are one mistake, which names their number."""

    @model_validator(mode="wrap")
    @classmethod
    def _count_mistakes(cls, value: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return check(value)
        except ValidationError as error:
            if error.error_count() <= MAX_MISTAKES:
                raise
            count = {"count": error.error_count()}
        raise PydanticCustomError("too_many_mistakes", "has {count} mistakes, too many to list them", count)


class WellFormedBody(FewMistakes):
    """A request of a chat: any value of it may become part of an id, of a history or of the answer."""

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, value: Any) -> Any:
        """Refuse NaN and deep nesting, and replace lone surrogates."""
        return validated_json(value)
