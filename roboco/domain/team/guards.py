"""Guards: tools and teams that decide whether a message reaches the agents, or an answer the user; their verdicts."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from roboco.domain.history.part import ToolResult
from roboco.domain.schema import InputModel, Name

MAX_GUARDS = 10
MAX_REASON_CHARS = 500


class RefusalAnswer(InputModel):
    """The answer to a refused message, or in place of a refused answer."""

    answer: Annotated[str, Field(min_length=1, max_length=10_000)]


class Guards(InputModel):
    """The guards of a team."""

    input: Annotated[tuple[Name, ...], Field(max_length=MAX_GUARDS)] = ()
    """Tools or teams of this team that check each message of the user before an agent sees it."""
    output: Annotated[tuple[Name, ...], Field(max_length=MAX_GUARDS)] = ()
    """Tools or teams of this team that check each answer of an agent before the user or another agent sees it."""
    on_refusal: Literal["end"] | RefusalAnswer = "end"
    """The end of the task at a refused message or answer: as failed, or completed with an answer."""
    on_error: Literal["refuse", "fail"] = "refuse"
    """Whether a guard that fails, exceeds its time or gives no verdict refuses, or lets the task fail."""

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if not (self.input or self.output):
            raise ValueError("name at least one guard under 'input' or 'output'")
        return self


def verdict_of(result: ToolResult) -> dict[str, Any]:
    """Return whether the guard with this result has passed the text, the reason, and whether the guard has failed.

    A verdict is true or false, or an object with `passed`. That of a team is its typed output. All else is a failure.
    """
    if result.is_error:
        return {"passed": False, "reason": (result.error or "")[:MAX_REASON_CHARS], "failed": True}
    value: Any = result.result
    reason = ""
    if isinstance(value, dict) and "task_id" in value:
        value = value.get("output")
    if isinstance(value, dict):
        value, reason = value.get("passed"), str(value.get("reason") or "")[:MAX_REASON_CHARS]
    if not isinstance(value, bool):
        return {"passed": False, "reason": "it returned no verdict: true, false, or {passed, reason}", "failed": True}
    return {"passed": value, "reason": reason}
