"""ContextPolicy: which part of the history an agent's turns send to the model."""

from typing import Annotated, Literal

from pydantic import Field

from roboco.domain.schema import Declared


class RecentContext(Declared):
    """Working memory of the newest `steps` steps."""

    strategy: Literal["recent"] = "recent"
    steps: Annotated[int, Field(ge=1, le=500)] = 20


class BudgetContext(Declared):
    """Working memory of as many of the newest steps as fit `tokens` tokens, with the prompt and the tools."""

    strategy: Literal["budget"]
    tokens: Annotated[int, Field(ge=100)] = 8000


class SummaryContext(Declared):
    """Working memory of the newest `steps` steps or up to twice as many, and a summary of all older ones.

    The summary has about `tokens` tokens and is made by the profile `model`, or by the agent's own. It goes on from the
    one before each time that `steps` more steps are older, and the same range is never summarised twice.
    """

    strategy: Literal["summary"]
    steps: Annotated[int, Field(ge=2, le=200)] = 20
    tokens: Annotated[int, Field(ge=50, le=8000)] = 500
    model: str | None = None


ContextPolicy = Annotated[RecentContext | BudgetContext | SummaryContext, Field(discriminator="strategy")]
