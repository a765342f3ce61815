"""ModelProfile: a named model of a team, and what it costs."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from roboco.domain.schema import Declared, Price, Variable
from roboco.domain.url import url_mistake


class ModelProfile(Declared):
    """A named model: `model` as its server calls it; time-outs in seconds; `label` and `description` are for people.

    `tool_calls`: whether the model calls tools by the protocol's own means, or answers with JSON that holds its calls.
    `images`: whether it takes images. `price_in` and `price_out` are per million tokens, in the currency of the limits.
    `requests_per_minute` and `tokens_per_minute` (in and out together) hold for all tasks of the team, on all workers.
    `outage_limit`: seconds for which a turn is retried while the model's server refuses it or cannot be reached, up to
    ROBOCO_OUTAGE_TIMEOUT; then its task is paused.
    """

    model: Annotated[str, Field(min_length=1)]
    base_url: str | None = None
    api_key_env: Variable | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    first_token_timeout: Annotated[float, Field(gt=0)] = 120.0
    idle_timeout: Annotated[float, Field(gt=0)] = 60.0
    tool_calls: Literal["native", "json"] = "native"
    images: bool = False
    price_in: Price = 0.0
    price_out: Price = 0.0
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    outage_limit: Annotated[float, Field(ge=10)] | None = None
    default: bool = False
    label: str = ""
    description: str = ""

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        if value is not None and (mistake := url_mistake(value)):
            raise ValueError(mistake)
        return value

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """What a call with so many tokens costs."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1_000_000
