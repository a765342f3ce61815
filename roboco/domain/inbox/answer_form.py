"""AnswerForm: the form that a message demands of its answer."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from roboco.domain.schema import InputModel

MAX_INSTRUCTIONS_CHARS = 64 * 1024
"""The longest instructions of a message, in characters."""


class Sampling(InputModel):
    """Parameters of the model calls for a message, in place of those of the team's profiles."""

    model_config = ConfigDict(strict=True)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The most tokens of a reply, if its profile allows more."""
    seed: int | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    reasoning_effort: Annotated[str, Field(max_length=20)] | None = None
    verbosity: Annotated[str, Field(max_length=20)] | None = None


class AnswerForm(InputModel):
    """The form of the answer to a message. It applies until the answer is complete."""

    model_config = ConfigDict(strict=True)

    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS_CHARS)] | None = None
    """Text below the prompt of each agent."""
    value: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    """The JSON Schema of the answer of the agent that ends the work."""
    calls: Literal["auto", "required", "none"] | None = None
    """With "required" that agent must call a client tool, and no other agent may. With "none" no agent may."""
    one_call: bool | None = None
    """True if a reply may have one call at most; further ones are dropped."""
    sampling: Sampling | None = None
