"""ImportedMessage: an earlier message that a caller submits with a task, as the first steps of its history."""

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, field_validator, model_validator

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
