"""ImportedMessage: an earlier message that a caller submits with a task, as the first steps of its history."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, ValidationError, field_validator, model_validator

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep
from roboco.domain.history.step_text import step_text
from roboco.domain.schema import InputModel
from roboco.domain.team.team import MAX_PROMPT_CHARS

MAX_IMPORTED_MESSAGES = 1000
"""The largest number of imported messages of a task."""
MAX_IMPORTED_BYTES = 4 * 1024 * 1024
"""The largest size of all imported messages of a task, in bytes of their JSON."""


class ImportedMessage(InputModel):
    """A message of a user, or of an agent of the team."""

    model_config = ConfigDict(strict=True)

    role: Literal["user", "assistant"]
    text: Annotated[str, Field(max_length=MAX_PROMPT_CHARS, validation_alias=AliasChoices("text", "content"))]
    """The text; `content` is another name for it."""
    agent: str | None = None
    """The agent that wrote it; without one, the agent that would speak last in the team."""

    @model_validator(mode="before")
    @classmethod
    def _of_step(cls, given: Any) -> Any:
        """Read a step, by the names of any document, as a message: its calls, results and files become text."""
        if not isinstance(given, dict) or "parts" not in given:
            return given
        try:
            step = TaskStep.model_validate(given)
        except ValidationError as error:
            raise ValueError(f"is not a step: {error.errors()[0]['msg']}") from error
        results = [
            f"(error: {one.error})" if one.error else f"(result: {canonical_json(one.result)})" for one in step.results
        ]
        message = {"text": "\n".join(filter(None, [*results, step_text(step)]))}
        return message | ({"role": "assistant", "agent": step.agent_name} if step.by_agent else {"role": "user"})

    @field_validator("text")
    @classmethod
    def _is_not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("is empty; leave the message out")
        return text

    @model_validator(mode="after")
    def _only_agents_are_named(self) -> Self:
        if self.role == "user" and self.agent is not None:
            raise ValueError("agent: only a message with the role 'assistant' has an agent")
        return self
