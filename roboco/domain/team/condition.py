"""Conditions on an edge of a routing graph.

A condition tests the agent's current run: its steps and their tool results since it took over. Text and metadata are
those of the last step. Tools and artifacts are those of the whole run, because an agent that calls a tool writes
another step before its run ends.
"""

from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from roboco.domain.history.step import TaskStep
from roboco.domain.pattern import check_pattern, matches

MAX_GLOB_CHARS = 200


class Condition(BaseModel):
    """One or more tests that must all hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    contains: str | None = None
    """A substring of the text."""
    matches: str | None = None
    """A regular expression in Rust's syntax. If the text is too long for it, its end is searched."""
    tool_called: str | None = None
    """The name of a tool that was called."""
    tool_failed: str | None = None
    """The name of a tool that returned an error."""
    artifact: Annotated[str, Field(max_length=MAX_GLOB_CHARS)] | None = None
    """A glob on the names of artifacts."""
    metadata: dict[str, Any] | None = None
    """Dotted keys, and the values that they must have."""
    not_: Annotated["Condition | None", Field(alias="not")] = None
    any_: Annotated[tuple["Condition", ...] | None, Field(alias="any", min_length=1)] = None
    all_: Annotated[tuple["Condition", ...] | None, Field(alias="all", min_length=1)] = None

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        return check_pattern(pattern)

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

    def holds(self, current_run: tuple[TaskStep, ...]) -> bool:
        """Return True if every test holds for the agent's current run, which is oldest step first and never empty."""
        return all(self._tests(current_run))

    def _tests(self, current_run: tuple[TaskStep, ...]) -> list[bool]:
        last = current_run[-1]
        tests: list[bool] = []
        if self.contains is not None:
            tests.append(self.contains in last.text)
        if self.matches is not None:
            tests.append(matches(self.matches, last.text))
        if self.metadata is not None:
            tests.append(all(_value_at(last.metadata, key) == value for key, value in self.metadata.items()))
        return tests + self._tool_tests(current_run) + self._nested_tests(current_run)

    def _tool_tests(self, current_run: tuple[TaskStep, ...]) -> list[bool]:
        calls = {call.id: call.tool_name for step in current_run for call in step.calls}
        failed = {calls.get(result.tool_call_id) for step in current_run for result in step.results if result.is_error}
        names = [artifact.name for step in current_run for artifact in step.artifacts]
        tests: list[bool] = []
        if self.tool_called is not None:
            tests.append(self.tool_called in calls.values())
        if self.tool_failed is not None:
            tests.append(self.tool_failed in failed)
        if self.artifact is not None:
            tests.append(any(fnmatchcase(name, self.artifact) for name in names))
        return tests

    def _nested_tests(self, current_run: tuple[TaskStep, ...]) -> list[bool]:
        tests: list[bool] = []
        if self.not_ is not None:
            tests.append(not self.not_.holds(current_run))
        if self.any_ is not None:
            tests.append(any(condition.holds(current_run) for condition in self.any_))
        if self.all_ is not None:
            tests.append(all(condition.holds(current_run) for condition in self.all_))
        return tests


def _value_at(metadata: dict[str, Any], dotted: str) -> Any:
    value: Any = metadata
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
