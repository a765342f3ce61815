"""Approval: which calls of a tool a person must approve before they run."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from roboco.domain.pattern import check_pattern, matches, reach

MOST_TESTS = 50
"""How many tests one may hold, itself included: each may search a whole argument."""


class ArgumentTest(BaseModel):
    """A test of one argument of a call, or of other tests; all that is given must hold.

    It holds too where the argument is missing or of another kind than the test can judge: what cannot be judged
    is asked about.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    argument: Annotated[str | None, Field(min_length=1)] = None
    equals: JsonValue = None
    above: float | None = None
    below: float | None = None
    matches: str | None = None
    any: tuple["ArgumentTest", ...] = ()
    all: tuple["ArgumentTest", ...] = ()

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        return check_pattern(pattern)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        tests = {"equals": self.equals, "above": self.above, "below": self.below, "matches": self.matches}
        judged = [name for name, value in tests.items() if value is not None]
        if judged and self.argument is None:
            raise ValueError(f"{', '.join(judged)} needs 'argument', the name of what is tested")
        if not judged and not self.any and not self.all:
            raise ValueError("tests nothing: give 'argument' with equals, above, below or matches; or any, or all")
        if self.tests > MOST_TESTS:
            raise ValueError(f"holds {self.tests} tests, at most {MOST_TESTS} are possible")
        return self

    @property
    def tests(self) -> int:
        """How many tests there are in this one, itself included."""
        return 1 + sum(test.tests for test in (*self.any, *self.all))

    def holds(self, args: dict[str, Any]) -> bool:
        """Whether a call with these arguments passes the test."""
        if self.any and not any(test.holds(args) for test in self.any):
            return False
        if not all(test.holds(args) for test in self.all):
            return False
        return self.argument is None or self.argument not in args or self._judged(args[self.argument])

    def _judged(self, value: Any) -> bool:
        if self.equals is not None and type(value) is type(self.equals) and value != self.equals:
            return False
        if self.matches is not None and isinstance(value, str) and _surely_not(self.matches, value):
            return False
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        return (self.above is None or value > self.above) and (self.below is None or value < self.below)


def _surely_not(pattern: str, text: str) -> bool:
    """Return True if the whole text was searched without a match: a call must not evade approval by padding."""
    return len(text) <= reach(pattern) and not matches(pattern, text)
