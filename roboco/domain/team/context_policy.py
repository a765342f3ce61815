"""ContextPolicy: the part of the history that an agent's turns send to the model."""

from typing import Annotated, Literal

from pydantic import Field

from roboco.domain.schema import InputModel


class _Context(InputModel):
    see: tuple[str, ...] | None = None
    """The agents whose steps the agent sees, beside its own and the user's. By default all of them."""
    results: bool = True
    """Whether it sees the results of other agents' tool calls."""


class RecentContext(_Context):
    """Working memory of the newest steps, at most `steps` of them.

    The oldest ones are left out in blocks of half of `steps`, so that most prompts begin as the one before did, and the
    provider's cache has them.
    """

    strategy: Literal["recent"] = "recent"
    steps: Annotated[int, Field(ge=1, le=500)] = 40


class BudgetContext(_Context):
    """Working memory of the newest steps that fit into `tokens` tokens, together with the prompt and the tools.

    If not all steps fit, the oldest ones are left out in blocks, of up to half of `tokens`.
    """

    strategy: Literal["budget"]
    tokens: Annotated[int, Field(ge=100)] = 8000


class SummaryContext(InputModel):
    """Working memory of the newest `steps` steps or up to twice as many, and a summary of all older ones.

    Each time that `steps` more steps are older, a new summary extends the previous one. No range is summarised twice.
    """

    strategy: Literal["summary"]
    steps: Annotated[int, Field(ge=2, le=200)] = 20
    tokens: Annotated[int, Field(ge=50, le=8000)] = 500
    """The approximate size of the summary."""
    model: str | None = None
    """The profile that makes the summary. By default it is the agent's own."""


ContextPolicy = Annotated[RecentContext | BudgetContext | SummaryContext, Field(discriminator="strategy")]
