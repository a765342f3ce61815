"""Approval: the condition under which a person must approve a tool call before it runs, and for how long it waits."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from roboco.domain.duration import Duration
from roboco.domain.pattern import Pattern, matches, max_searched_chars
from roboco.domain.schema import InputModel

MAX_CONDITIONS = 50
"""The largest number of conditions in one, including itself. Each may search a whole argument."""


OnExpiry = Literal["deny", "stop", "fail"]
"""The consequence if no person decides in time: the call is denied, or the task is stopped, or it fails."""


class ApprovalTerms(InputModel):
    """For how long a call of a tool waits for a person's approval."""

    expires: Duration | None = None
    """How long after its step a call waits for a person, for example `2h`. By default it waits without an end."""
    on_expiry: OnExpiry = "deny"
    """The consequence then: the call is denied, or the task is stopped, or it fails."""
    remind: Duration | None = None
    """When the person is reminded, after the step that made the call; the interval doubles each time."""

    @model_validator(mode="after")
    def _of_an_approval(self) -> Self:
        terms = self.terms
        if terms and getattr(self, "approval", None) == "never":
            raise ValueError(f"{next(iter(terms))}: needs 'approval', without which no call waits for a person")
        if self.expires is None and self.on_expiry != "deny":
            raise ValueError("on_expiry: needs 'expires'")
        return self

    @property
    def terms(self) -> dict[str, Any]:
        """Return the terms that differ from the defaults."""
        return self.model_dump(include={*ApprovalTerms.model_fields}, exclude_defaults=True)


class ArgumentCondition(BaseModel):
    """A condition on one argument of a call, or on other conditions. All fields that are set must apply.

    It also applies if the argument is missing, or of a type that the condition cannot evaluate: in doubt, a person is
    asked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    argument: Annotated[str | None, Field(min_length=1)] = None
    """The name of the argument."""
    equals: JsonValue = None
    above: float | None = None
    below: float | None = None
    matches: Pattern | None = None
    any: tuple["ArgumentCondition", ...] = ()
    """Conditions of which at least one must apply."""
    all: tuple["ArgumentCondition", ...] = ()
    """Conditions that must all apply."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        tests = {"equals": self.equals, "above": self.above, "below": self.below, "matches": self.matches}
        judged = [name for name, value in tests.items() if value is not None]
        if judged and self.argument is None:
            raise ValueError(f"{', '.join(judged)} needs 'argument', the name of the tested argument")
        if not judged and not self.any and not self.all:
            raise ValueError("tests nothing: give 'argument' with equals, above, below or matches; or any, or all")
        if self.size > MAX_CONDITIONS:
            raise ValueError(f"holds {self.size} tests, at most {MAX_CONDITIONS} are possible")
        return self

    @property
    def size(self) -> int:
        """Return the number of conditions in this one, including itself."""
        return 1 + sum(test.size for test in (*self.any, *self.all))

    def applies_to(self, args: dict[str, Any]) -> bool:
        """Return True if a call with these arguments needs approval."""
        if self.any and not any(test.applies_to(args) for test in self.any):
            return False
        if not all(test.applies_to(args) for test in self.all):
            return False
        return self.argument is None or self.argument not in args or self._value_matches(args[self.argument])

    def _value_matches(self, value: Any) -> bool:
        if self.equals is not None and type(value) is type(self.equals) and value != self.equals:
            return False
        if self.matches is not None and isinstance(value, str) and _certainly_no_match(self.matches, value):
            return False
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        return (self.above is None or value > self.above) and (self.below is None or value < self.below)


def _certainly_no_match(pattern: str, text: str) -> bool:
    """Return True if the whole text was searched without a match: padding must not evade approval."""
    return len(text) <= max_searched_chars(pattern) and not matches(pattern, text)
