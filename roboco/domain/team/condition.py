"""Conditions on an edge of a routing graph. `domain/decision/router.py` tests them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roboco.domain.pattern import Pattern

MAX_GLOB_CHARS = 200


class Condition(BaseModel):
    """One or more tests that must all hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    contains: str | None = None
    """A substring of the text."""
    matches: Pattern | None = None
    """A regular expression in Rust's syntax. If the text is too long for it, its end is searched."""
    tool_called: str | None = None
    """The name of a tool that was called."""
    tool_failed: str | None = None
    """The name of a tool that returned an error."""
    artifact: Annotated[str, Field(max_length=MAX_GLOB_CHARS)] | None = None
    """A glob on the names of artifacts."""
    metadata: dict[str, Any] | None = None
    """Dotted keys, and the values that they must have."""
    output: dict[str, Any] | None = None
    """Dotted keys of the typed output of the agent's answer, and the values that they must have."""
    state: dict[str, Any] | None = None
    """Dotted keys of the task's state, and the values that they must have."""
    not_: Annotated["Condition | None", Field(alias="not")] = None
    any_: Annotated[tuple["Condition", ...] | None, Field(alias="any", min_length=1)] = None
    all_: Annotated[tuple["Condition", ...] | None, Field(alias="all", min_length=1)] = None

    @model_validator(mode="after")
    def _not_empty(self) -> "Condition":
        if not self.model_fields_set:
            possible = ", ".join(field.alias or name for name, field in type(self).model_fields.items())
            raise ValueError(f"an empty condition: use one of {possible}, or leave out 'when' for always")
        return self

    @property
    def size(self) -> int:
        """Return the number of conditions in this one, including itself."""
        inner = (*(self.any_ or ()), *(self.all_ or ()), *filter(None, (self.not_,)))
        return 1 + sum(condition.size for condition in inner)
