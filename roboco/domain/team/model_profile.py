"""ModelProfile: a named model of a team, with its limits and prices."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from roboco.domain.schema import EnvVarName, InputModel, Price
from roboco.domain.url import url_error


class ModelProfile(InputModel):
    """A named model of a team. Timeouts are in seconds."""

    model: Annotated[str, Field(min_length=1)]
    """The name of the model at its server."""
    base_url: str | None = None
    api_key_env: EnvVarName | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    first_token_timeout: Annotated[float, Field(gt=0)] = 120.0
    idle_timeout: Annotated[float, Field(gt=0)] = 60.0
    tool_calls: Literal["native", "json"] = "native"
    """The way the model calls tools: by the protocol's native means, or by a JSON reply that contains its calls."""
    images: bool = False
    """True if the model accepts images."""
    price_in: Price = 0.0
    """The price of a million input tokens, in the currency of the limits."""
    price_out: Price = 0.0
    """The price of a million output tokens."""
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """A limit for all tasks of the team, on all workers."""
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """A limit of input and output tokens together, for all tasks of the team, on all workers."""
    outage_timeout: Annotated[float, Field(ge=10)] | None = None
    """Seconds of retries while the model's server refuses a turn or is unreachable, up to ROBOCO_OUTAGE_TIMEOUT.

    After that the task is paused.
    """
    default: bool = False
    label: str = ""
    """The name of the profile for people."""
    description: str = ""
    """The description for people."""

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        if value is not None and (mistake := url_error(value)):
            raise ValueError(mistake)
        return value

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call with these numbers of tokens."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1_000_000
