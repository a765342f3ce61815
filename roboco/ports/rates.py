"""What providers allow a minute, kept by all workers together, and how tokens are counted."""

from typing import Protocol

from roboco.domain.model_profile import ModelProfile
from roboco.domain.tokens import Tokens


class Rates(Protocol):
    """How many requests and tokens a minute a profile may have, in any sixty seconds as its provider sees them."""

    def reserve(self, profile: ModelProfile, ticket: str, tokens: int) -> float:
        """Seconds until a request of so many tokens may be made: 0 if now, and then it counts from now on.

        Who has to wait keeps its place in the order in which tickets came, for as long as it comes back in time. The
        same ticket again, once its request may be made, is the same request. A request that is larger than a minute's
        tokens waits until nothing else was asked for a minute.
        """

    def settle(self, profile: ModelProfile, ticket: str, tokens: int, ago: float = 0.0) -> None:
        """The request of this ticket was made so many seconds ago, and has used so many tokens."""

    def pause(self, profile: ModelProfile, seconds: float) -> None:
        """Let nobody ask this profile's server for so many seconds: it said so. A longer pause stands."""


class Tokenizers(Protocol):
    """How the tokens of models are counted."""

    def of(self, model: str) -> Tokens:
        """How this model's tokens are counted: by its tokenizer, if that is known, else as an estimate that says so."""
